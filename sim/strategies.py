"""All strategies; `catalogue.py` has their names and what each does."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from offchain.providers.behaviour import Behaviour
from offchain.providers.catalogue import CHEATS, HONEST
from offchain.providers.cheats import make_cheat
from offchain.providers.task import Task
from sim import catalogue
from sim.strategy import Strategy
from sim.tricks import TRICKS, Watcher


def _draw_honest(task: Task, rng: np.random.Generator) -> Sequence[Behaviour]:
    del task, rng
    return [Behaviour()]


def _draw_cheat(name: str, task: Task, rng: np.random.Generator) -> Sequence[Behaviour]:
    return [make_cheat(name, task, rng)]


STRATEGIES: Mapping[str, Strategy] = {
    HONEST: Strategy(_draw_honest),
    "watcher": Strategy(_draw_honest, scheme=Watcher),
    **{name: Strategy(partial(_draw_cheat, name)) for name in CHEATS},
    **TRICKS,
}
"""Each strategy by its name."""
assert tuple(STRATEGIES) == tuple(catalogue.STRATEGIES)
