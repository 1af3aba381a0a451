"""Random walks of the lock-step tests, taken on the model alone."""

import random
from typing import Any, cast

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from tests.mutants.replay import Call
from tests.mutants.tape import Tape
from tests.referee.stage import Stage
from tests.referee.test_lockstep import Act

STEPS = 160


def take_walk(seed: int, arithmetic: Arithmetic = ORDERED) -> list[Call]:
    """Do many things, as a seed has it."""
    rng, tape = random.Random(seed), Tape(arithmetic)
    act = Act(Stage(cast("Any", tape), rng.choice), rng)
    for _ in range(STEPS):
        act.step()
    return tape.calls
