"""Large cases: elements are drawn of all outputs, and every run has to end with the same bits.

The definition would take minutes for all elements. So drawn ones are compared with it, operator by
operator as an audit does; runs that are repeated, that advance and that threads share have to come
to the state of the one that was looked at.
"""

from random import Random

import numpy as np

from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.errors import WrongComputation
from moot.offchain.execution.executor import Executor
from moot.offchain.programs.graph import Program
from moot.offchain.providers.audit import AuditedStep
from tests.fuzz.compare import DifferenceError, Mode, compare, using
from tests.fuzz.draws import Case

RUNS = 5
"""Runs of a step, of which the last ones are those of a program that has run some times."""


def check_large(case: Case, mode: Mode, rng: Random) -> None:
    """Compare drawn elements of a case with the definition, and all of its runs with each other.

    Raises:
        DifferenceError: they differ, or the executor fails.
    """
    with using(mode):
        try:
            _check_runs(case, rng)
        except DifferenceError:
            raise
        except WrongComputation as error:
            raise DifferenceError(f"shown: {error}") from error
        except Exception as error:
            raise DifferenceError(f"the executor fails: {error!r}") from error


def _check_runs(case: Case, rng: Random) -> None:
    program, state, batch, step = case
    executors = [Executor(program, threads) for threads in (1, 2, 3)]
    for number, executor in enumerate(executors):
        audited = AuditedStep(program, step, state, batch, _draw_elements(program, rng))
        shown = executor.run(state, batch, step, audited.observe)
        before = _encode([*state, *batch])
        sinks = range(program.first_sink, len(program.nodes))
        wanted = dict(zip(sinks, shown, strict=True))
        for run in range(RUNS):
            found = executor.run(state, batch, step)
            compare(f"run {run} of {number + 1} threads", _number(sinks, found), wanted)
            advanced = [array.copy() for array in state]
            executor.advance(advanced, batch, step)
            compare(f"advance {run} of {number + 1} threads", _number(sinks, advanced), wanted)
        if _encode([*state, *batch]) != before:
            raise DifferenceError("the executor writes to its inputs")


def _draw_elements(program: Program, rng: Random) -> dict[int, int]:
    """Return an element of every operator that has any: the first, the last, or any."""
    sizes = {index: node.elements for index, node in enumerate(program.nodes) if node.elements}
    return {i: rng.choice((0, size - 1, rng.randrange(size))) for i, size in sizes.items()}


def _number(sinks: range, state: list[Array]) -> dict[int, Array]:
    return dict(zip(sinks, map(np.asarray, state), strict=True))


def _encode(arrays: list[Array]) -> list[bytes]:
    return [encode_elements(array).tobytes() for array in arrays]
