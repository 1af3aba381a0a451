"""The casting of a case: who takes part under each conduct, and what all of them have run.

Case n of a lineup trains on the n-th stretch of the program's data, and what each conduct draws
depends on (conduct, n) and its place among its like alone: two lineups have the same liars.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path

import numpy as np

from moot.contracts.model.types import Address
from moot.offchain.backends.table import DEFAULT
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.reading import make_cheat
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.sim.economy.strategies.base import HONEST, WATCHER
from moot.sim.economy.streams import open_conduct_stream
from moot.sim.scratch import open_scratch
from moot.sim.strategies import Conduct, find_conduct
from moot.sim.tricks.base import Trick

STAKES = Stakes(
    commit_blocks=24, reveal_blocks=24, window_blocks=16, clock_blocks=48, increment_blocks=4
)
"""Short windows and clocks, with room for a block a call in as many matches as there may be."""

RUNS = 64
"""About so many different runs are kept at the same time."""


@dataclass(frozen=True, slots=True)
class Party:
    """Who takes part in a case under one conduct, and which share of the steps its claims need."""

    conduct: str
    players: tuple[Player, ...]
    trick: Trick | None
    is_client: bool
    work: float

    @property
    def is_honest(self) -> bool:
        """Whether the referee must never take anything from it."""
        return self.conduct in (HONEST, WATCHER)


@dataclass
class Cast:
    """The parties of all cases about a task.

    Attributes:
        task: what is agreed in case 0.
        backend: the name of what computes.
    """

    task: Task
    backend: str = DEFAULT
    _runs: dict[tuple[str, int], Run] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _names: Iterator[int] = field(default_factory=count)

    def seat(self, conduct: str, place: int, number: int, free: Iterator[Address]) -> Party:
        """Return who takes part under a conduct, with what all its accounts have run.

        Args:
            conduct: a name as `find_conduct` takes it.
            place: how many have sat down before it under the same conduct.
            number: of the case.
            free: accounts that nobody has; as many are taken as the conduct needs.

        Raises:
            UsageError: the conduct is impossible with the task.
        """
        rng = open_conduct_stream(conduct, place, number)
        row, task = find_conduct(conduct), take_stretch(self.task, number)
        behaviours = draw_behaviours(row, task, rng)
        kind = row.load_trick()
        make = kind.player if kind else Player
        players = tuple(
            make(f"{conduct}-{place + 1}.{account + 1}", next(free), run, rng.bytes(32))
            for account, run in enumerate(self.run(each, number) for each in behaviours)
        )
        steps = sum(each.count_steps(task.steps, task.checkpoint_every) for each in behaviours)
        trick = kind(players) if kind else None
        return Party(conduct, players, trick, row.is_client, steps / task.steps)

    def run(self, behaviour: Behaviour, number: int) -> Run:
        """Return what somebody has run in a case; it is run once, whoever else is there."""
        key = (behaviour.describe(), number)
        if key not in self._runs:
            place = self._folder / f"{number}"
            place.mkdir(exist_ok=True)
            store = Store(place / f"{next(self._names)}")
            task = take_stretch(self.task, number)
            run = Run(task, behaviour, store, backend=self.backend)
            run.compute()
            self._runs[key] = run
        return self._runs[key]

    def forget(self, number: int) -> None:
        """Take away what was run in a case that nobody plays again."""
        for key in [key for key in self._runs if key[1] == number]:
            del self._runs[key]
        shutil.rmtree(self._folder / f"{number}", ignore_errors=True)

    def close(self) -> None:
        """Take away all that was run."""
        self._runs.clear()
        self._stack.close()

    @cached_property
    def _folder(self) -> Path:
        """Where runs are kept until this process ends."""
        return Path(self._stack.enter_context(open_scratch(self.task, RUNS)))


def take_stretch(task: Task, number: int) -> Task:
    """Return the same task on other data: the stretch of batches that has this number."""
    first = number * task.steps
    return replace(task, batch=lambda step: task.batch(first + step))


def draw_behaviours(
    conduct: Conduct, task: Task, rng: np.random.Generator
) -> tuple[Behaviour, ...]:
    """Return the behaviour of each account of a conduct in a case.

    Raises:
        UsageError: the conduct is impossible with the task.
    """
    drawn = [Behaviour() if it == HONEST else make_cheat(it, task, rng) for it in conduct.runs]
    return tuple(behaviour for behaviour in drawn for _ in range(conduct.copies))


def check_conducts(names: Iterable[str], task: Task) -> None:
    """Raise UsageError when one of these conducts is impossible with a task."""
    for name in names:
        draw_behaviours(find_conduct(name), task, np.random.default_rng(0))
