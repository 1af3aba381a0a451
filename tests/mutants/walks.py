"""Random walks of the lock-step tests, taken on the model alone."""

import random
from collections.abc import Sequence
from typing import Any, cast

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.sim.synthetic.products import Size
from tests.mutants.replay import Call
from tests.mutants.tape import Tape
from tests.referee.stage import SIZES, Stage
from tests.referee.test_lockstep import Act

STEPS = 160


def take_walk(
    seed: int, arithmetic: Arithmetic = ORDERED, sizes: Sequence[Size] = SIZES
) -> list[Call]:
    """Do many things, as a seed has it, in jobs of some sizes."""
    rng, tape = random.Random(seed), Tape(arithmetic)
    act = Act(Stage(cast("Any", tape), rng.choice, sizes), rng)
    for _ in range(STEPS):
        act.step()
    return tape.calls


def draw_size(seed: int) -> Size:
    """Return the size of a job, in which a lie in the third step has a place."""
    rng = random.Random(seed)
    return Size(
        checkpoints=rng.randint(3, 40),
        checkpoint_every=rng.choice((1, 1, 2, 3)),
        operators=rng.randint(6, 24),
        rows=rng.randint(1, 24),
        columns=rng.randint(2, 40),
        terms=rng.choice((1, 2, 3, 50, 64, 65, 130, 300)),
    )
