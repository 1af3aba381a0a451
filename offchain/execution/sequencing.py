"""The joining of a run's tasks to sequences, which a backend computes at once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from moot.offchain.backends.port import (
    FusedPlan,
    Journal,
    Plan,
    SequencePlan,
    SequencingBackend,
    Step,
    Tensor,
)
from moot.offchain.commitments.tensors import Array
from moot.offchain.programs.graph import Node


class Job(NamedTuple):
    """A task ready to run: (tensors, step, journal) -> outputs of `kept`.

    A run keeps all tensors in one list, in which each has its place: constants the first, which is
    empty, then those of the state, of the batch, and outputs. The journal is what a log of
    roundings is read from, or written to; None where there is no log.

    Attributes:
        members: the operators that it computes.
        kept: those whose outputs it returns.
        reads: the places of its operands.
        writes: the places of its outputs.
        ends: the places of the tensors that nobody reads after it, so that the run may let them
            die.
        run: computes its outputs; None for an alias that has the place of its operand.
        plan: the backend's plan; None for an alias, and for a sequence.
        needed_bytes: what a sequence takes besides what it is given.
    """

    members: tuple[int, ...]
    kept: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    ends: tuple[int, ...]
    run: Callable[[Sequence[Tensor | None], int, Journal | None], Sequence[Tensor]] | None
    plan: Plan | FusedPlan | None = None
    needed_bytes: int = 0


def join(
    jobs: Sequence[Job], backend: SequencingBackend, nodes: Sequence[Node], sizes: Sequence[int]
) -> list[Job]:
    """Return the jobs of a run, where neighbours that a sequence may have are one.

    Args:
        jobs: the jobs, in their order.
        backend: what computes them.
        nodes: the program's operators.
        sizes: the bytes of the tensor of each place.
    """
    joined: list[Job] = []
    waiting: list[Job] = []
    waiting_bytes, most_bytes = 0, backend.most_sequence_bytes
    for job in jobs:
        is_called = job.plan is not None and backend.is_called(job.plan)
        size = sum(sizes[place] for place in {*job.writes, *job.ends} if job.run)
        if not (job.run is None or is_called) or waiting_bytes + size > most_bytes:
            joined += _join(waiting, backend, nodes)
            waiting, waiting_bytes = [], 0
        if job.run is None or is_called:
            waiting.append(job)
            waiting_bytes += size
        else:
            joined.append(job)
    return [*joined, *_join(waiting, backend, nodes)]


def make_steps(jobs: Sequence[Job], nodes: Sequence[Node]) -> list[Step]:
    """Return what a backend is told of tasks."""
    return [
        Step(job.plan, job.reads, job.writes, tuple(nodes[index] for index in job.kept))
        for job in jobs
        if job.plan is not None
    ]


def _join(jobs: Sequence[Job], backend: SequencingBackend, nodes: Sequence[Node]) -> Sequence[Job]:
    steps = make_steps(jobs, nodes)
    if not steps:
        return jobs
    written = dict.fromkeys(place for step in steps for place in step.writes)
    ended = dict.fromkeys(place for job in jobs for place in job.ends)
    read = dict.fromkeys(place for step in steps for place in step.reads if place)
    reads = tuple(place for place in read if place not in written)
    writes = tuple(place for place in written if place not in ended)
    plan = backend.plan_sequence(steps, reads, writes)
    joined = Job(
        tuple(member for job in jobs for member in job.members),
        tuple(index for job in jobs for index in job.kept),
        reads,
        writes,
        tuple(place for place in ended if place not in written),
        lambda tensors, _step, _journal: cast("Sequence[Tensor]", plan.run(tensors)),
        needed_bytes=plan.needed_bytes,
    )
    return [joined]


class Whole:
    """A run that is one sequence, from the arrays that the caller has to those that it gets.

    Args:
        plan: the plan of all tasks, which looks at the arrays itself.
        slots: how many tensors the state and the batch have.
    """

    def __init__(self, plan: SequencePlan, slots: tuple[int, int]) -> None:
        self._run = cast("Callable[[Sequence[Array]], list[Array] | None]", plan.run)
        self._states, self._batches = slots

    def run(self, state: Sequence[Array], batch: Sequence[Array]) -> list[Array] | None:
        """Return the next state; None, and nothing is computed, if something does not fit."""
        if len(state) != self._states or len(batch) != self._batches:
            return None
        return self._run([*state, *batch])
