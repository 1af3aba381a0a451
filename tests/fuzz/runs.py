"""Cases that run for several steps, each from the state that the one before it has left.

What a program does may depend on its state, so that a path opens after the first steps only. The
definition runs the same steps. The executor runs them task by task, as one that has run some times
does, and advancing, each from its own state.
"""

from collections.abc import Sequence
from random import Random
from unittest.mock import patch

import numpy as np

from moot.offchain.commitments.tensors import Array
from moot.offchain.execution import preparation
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.native import sequences
from tests.fuzz.compare import DifferenceError, Mode, compare, using
from tests.fuzz.draws import Case

STEPS = 4
"""Steps of a run; with the last ones small tasks are joined to sequences."""


def define_run(case: Case, steps: int = STEPS) -> list[list[Array]]:
    """Return the state after each step, by the letter of the definition."""
    states, state = [], case.state
    for number in list_steps(case, steps):
        state = run_step(case.program, state, case.batch, number)
        states.append(state)
    return states


def list_steps(case: Case, steps: int) -> list[int]:
    """Return the numbers of the steps, which end where numbers do."""
    first = min(case.step, 2**32 - steps)
    return [first + number for number in range(steps)]


def check_run(case: Case, defined: Sequence[Sequence[Array]], mode: Mode, rng: Random) -> None:
    """Compare each state of the executor's runs with what it is defined to be.

    Raises:
        DifferenceError: they differ, or the executor fails.
    """
    cold = rng.choice((0, 1, 3))
    with (
        using(mode),
        patch.object(preparation, "_COLD_RUNS", cold),
        patch.object(sequences, "_KEPT_BYTES", 0),
    ):
        try:
            for is_advancing in (False, True):
                _check_states(case, defined, mode, is_advancing=is_advancing)
        except DifferenceError:
            raise
        except Exception as error:
            raise DifferenceError(f"the executor fails: {error!r}") from error


def _check_states(
    case: Case, defined: Sequence[Sequence[Array]], mode: Mode, *, is_advancing: bool
) -> None:
    executor = Executor(case.program, mode.threads)
    state = [array.copy() for array in case.state]
    sinks = range(case.program.first_sink, len(case.program.nodes))
    name = "advancing" if is_advancing else "running"
    for number, wanted in zip(list_steps(case, len(defined)), defined, strict=True):
        if is_advancing:
            executor.advance(state, case.batch, number)
        else:
            state = executor.run(state, case.batch, number)
        found = dict(zip(sinks, map(np.asarray, state), strict=True))
        compare(f"{name} to step {number}", found, dict(zip(sinks, wanted, strict=True)))
