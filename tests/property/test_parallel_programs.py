"""Drawn programs come to one state, however their batch is shared out among workers."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from threading import Barrier
from typing import NamedTuple

import numpy as np
import pytest

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ParallelError, ProgramError
from moot.offchain.execution.executor import Executor
from moot.offchain.parallel.execution import ParallelExecutor
from moot.offchain.parallel.launch import train
from moot.offchain.parallel.partition import count_samples, partition
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot
from moot.offchain.programs.rounding.roots import add_slot
from tests.fuzz.draws import Case, draw_case

PATIENCE_S = 300


class Meeting:
    """The exchange of workers that are threads here: everybody sees what all bring."""

    def __init__(self, workers: int) -> None:
        self._barrier = Barrier(workers, timeout=PATIENCE_S)
        self._brought: list[Array] = [np.zeros(0)] * workers

    def join(self, rank: int) -> "Seat":
        """Return a worker's exchange."""
        return Seat(self, rank)

    def bring(self, rank: int, array: Array, choose: Callable[[list[Array]], Array]) -> None:
        """Replace an array by what is chosen of all that was brought."""
        self._brought[rank] = array.copy()
        self._barrier.wait()
        found = choose(self._brought)
        self._barrier.wait()
        array[...] = found

    def leave(self) -> None:
        """Let nobody wait for a worker that has failed."""
        self._barrier.abort()


class Seat(NamedTuple):
    """A worker's place at a meeting."""

    meeting: Meeting
    rank: int

    def add_up(self, array: Array) -> None:
        """Replace an array by the sum of all."""
        self.meeting.bring(self.rank, array, lambda all_: sum(all_[1:], start=all_[0]))

    def hand_out(self, array: Array, owner: int) -> None:
        """Replace an array by one worker's."""
        self.meeting.bring(self.rank, array, lambda all_: all_[owner])


def share_batch(case: Case, rng: Random) -> Case:
    """Return a case whose batch has a common first dimension, as large a one as may be."""
    common = math.gcd(*(slot.elements for slot in case.program.batch))
    samples = common or rng.choice((1, 2, 3))
    slots = [
        replace(slot, shape=(samples, slot.elements // samples)) for slot in case.program.batch
    ]
    tensors = [tensor.reshape(slot.shape) for tensor, slot in zip(case.batch, slots, strict=True)]
    arithmetic = rng.choice((EXACT, EXACT, ORDERED))
    program = replace(case.program, batch=tuple(slots), arithmetic=arithmetic)
    return Case(program, case.state, tensors, case.step)


def run_together(case: Case, cuts: tuple[int, ...]) -> list[list[Array]]:
    """Return the states to which the workers come."""
    shares, meeting = partition(case.program, cuts), Meeting(len(cuts) - 1)

    def run(rank: int) -> list[Array]:
        executor = ParallelExecutor(case.program, shares, rank, meeting.join(rank))
        own = [tensor[cuts[rank] : cuts[rank + 1]] for tensor in case.batch]
        return executor.run([tensor.copy() for tensor in case.state], own, case.step)

    return run_threads(meeting, len(cuts) - 1, run)


def run_threads(
    meeting: Meeting, count: int, run: Callable[[int], list[Array]]
) -> list[list[Array]]:
    """Return what each of so many threads returns, which meet; if one fails, all do."""

    def guard(rank: int) -> list[Array]:
        try:
            return run(rank)
        except BaseException:
            meeting.leave()
            raise

    with ThreadPoolExecutor(count) as workers:
        return list(workers.map(guard, range(count)))


def assert_one_state(case: Case, cuts: tuple[int, ...]) -> None:
    """Compare all workers with the executor that has the whole batch."""
    alone = Executor(case.program).run(case.state, case.batch, case.step)
    for found in run_together(case, cuts):
        assert [x.tobytes() for x in found] == [x.tobytes() for x in alone]


@pytest.mark.parametrize("seed", [*range(6), pytest.param(range(6, 400), marks=pytest.mark.slow)])
def test_any_program_comes_to_one_state(seed: int | range) -> None:
    """Whatever a program does with its batch: sorts, scatters, draws, or has no elements."""
    for each in [seed] if isinstance(seed, int) else seed:
        rng = Random(each)
        case = draw_case(rng, is_matrix=rng.random() < 1 / 3)
        if case.program.batch:
            case = share_batch(case, rng)
            samples = count_samples(case.program)
            inner = sorted(rng.randrange(samples + 1) for _ in range(rng.randrange(3)))
            assert_one_state(case, (0, *inner, samples))


def access(origin: Origin, sizes: Sequence[int]) -> Operand:
    """Return an access to all elements of the first tensor there, in order."""
    rows = tuple(Row(size, terms=((place, 1),)) for place, size in enumerate(sizes))
    return Operand(origin, DType.FLOAT32, rows=rows)


def make_sum(sizes: tuple[int, int]) -> Program:
    """Return a program that adds up the rows of its batch."""
    start, batch = Slot("s", DType.FLOAT32, sizes[:1]), Slot("x", DType.FLOAT32, sizes)
    operands = (access(Origin.STATE, sizes[:1]), access(Origin.BATCH, sizes))
    add = Node(Kind.REDUCE, Function.ADD, DType.FLOAT32, sizes[:1], operands, sizes[1:])
    output = (access(Origin.NODE, sizes[:1]),)
    sink = Node(Kind.SINK, Function.COPY, DType.FLOAT32, sizes[:1], output)
    return Program((start,), (batch,), (add, sink), ("add", "s"), ("", ""), EXACT)


def test_samples_without_elements_are_shared_out() -> None:
    """Sums of nothing are their initial values, for workers too."""
    program = make_sum((4, 0))
    state: list[Array] = [np.arange(4, dtype=np.float32)]
    assert_one_state(Case(program, state, [np.zeros((4, 0), np.float32)], 0), (0, 3, 3, 4))


@pytest.mark.parametrize(
    "batch",
    [
        [],
        [np.ones((4, 2))],
        [np.ones((5, 2), np.float32)],
        [np.ones((1, 2), np.float32)],
        [np.ones((4, 1), np.float32)],
    ],
)
def test_tensors_that_do_not_fit_are_refused(batch: list[Array]) -> None:
    """Another type, other samples, or none at all: nothing is converted, cut or repeated."""
    with pytest.raises(ProgramError, match="given for"):
        train(make_sum((4, 2)), [np.ones(4, np.float32)], [batch], (3, 1))


def test_logs_are_not_passed_over() -> None:
    """The root of a log is no tensor of eight samples."""
    program = add_slot(replace(make_sum((8, 2)), arithmetic=LOGGED))
    with pytest.raises(ParallelError, match="rounding logs"):
        count_samples(program)
