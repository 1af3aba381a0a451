"""The fast executor: runs a program's operators, bit for bit as `programs/semantics.py` says."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

import numpy as np

from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.errors import ProgramError
from offchain.execution.kernels.threads import get_threads, set_threads
from offchain.execution.maps import MapGroup
from offchain.execution.plans import as_map, plan_node
from offchain.execution.schedule import Task, find_ancestors, group_maps, schedule
from offchain.programs.encoding import check_program
from offchain.programs.graph import Operand, Origin, Program, Slot

Observe = Callable[[int, Array], None]
"""(index of an operator, its output): may keep the output, must not write to it."""

Patch = Callable[[int, Array], Array]
"""(index of an operator, its output) -> what takes its place; must not write to the output."""

_SMALLEST = np.array([1], np.uint32).view(np.float32)


class _Job(NamedTuple):
    """A task ready to run: what it reads, and (tensors, step) -> the outputs of `task.kept`."""

    task: Task
    operands: tuple[Operand, ...]
    run: Callable[[Sequence[Array | None], int], Sequence[Array]]


class Executor:
    """Runs the steps of one program on tensors, which are arrays of the slots' types and shapes.

    Outputs depend on the program, the inputs and the step alone: not on the number of threads, nor
    on who looks on. They may share memory with the inputs, so that neither may be written to.

    Args:
        program: the program.
        threads: threads that kernels use while it runs; None leaves the setting of the process.

    Raises:
        ProgramError: the program is malformed.
    """

    def __init__(self, program: Program, threads: int | None = None) -> None:
        check_program(program)
        self.program = program
        self._threads = threads
        self._plans = [plan_node(node) for node in program.nodes]
        self._sinks = range(program.first_sink, len(program.nodes))

    def run(
        self,
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        observe: Observe | None = None,
        patch: Patch | None = None,
    ) -> list[Array]:
        """Run one step.

        Args:
            state: the tensors of the state's slots.
            batch: the tensors of the batch's slots.
            step: number of the step, which random operators depend on.
            observe: is shown the output of every operator, in order.
            patch: replaces outputs before they are observed and read.

        Returns:
            The tensors of the next state.

        Raises:
            ProgramError: an input has another type or shape than its slot.
        """
        jobs = self._fused if observe is None and patch is None else self._separate
        outputs = self._execute(jobs, state, batch, step, self._sinks, observe, patch)
        return [outputs[index] for index in self._sinks]

    def outputs(
        self,
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        wanted: Collection[int],
        patch: Patch | None = None,
    ) -> dict[int, Array]:
        """Return the outputs of some operators, by running those on which they depend.

        Arguments and errors are those of `run`; `patch` sees only operators that run.
        """
        needed = find_ancestors(self.program, wanted)
        jobs = self._prepare(needed, wanted, is_fused=patch is None)
        return self._execute(jobs, state, batch, step, wanted, None, patch)

    @cached_property
    def _separate(self) -> list[_Job]:
        return self._prepare(range(len(self.program.nodes)), self._sinks, is_fused=False)

    @cached_property
    def _fused(self) -> list[_Job]:
        needed = find_ancestors(self.program, self._sinks)
        return self._prepare(needed, self._sinks, is_fused=True)

    def _prepare(
        self, needed: Sequence[int], wanted: Collection[int], *, is_fused: bool
    ) -> list[_Job]:
        order = group_maps(self.program, needed) if is_fused else [[index] for index in needed]
        return [self._make_job(task) for task in schedule(self.program, order, wanted)]

    def _make_job(self, task: Task) -> _Job:
        if len(task.members) == 1:
            (index,) = task.members
            plan = self._plans[index]
            operands = self.program.nodes[index].operands
            return _Job(task, operands, lambda flats, step: (plan.run(flats, step),))
        maps = [(index, as_map(self.program.nodes[index])) for index in task.members]
        group = MapGroup([(index, node) for index, node in maps if node is not None], task.kept)
        return _Job(task, tuple(group.operands), lambda flats, _: group.run(flats))

    def _execute(
        self,
        jobs: Sequence[_Job],
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        wanted: Collection[int],
        observe: Observe | None,
        patch: Patch | None,
    ) -> dict[int, Array]:
        values: dict[int, Array] = {}
        pools: dict[Origin, Mapping[int, Array]] = {
            Origin.IMMEDIATE: {},
            Origin.NODE: values,
            Origin.STATE: dict(enumerate(_admit(state, self.program.state))),
            Origin.BATCH: dict(enumerate(_admit(batch, self.program.batch))),
        }
        with _using(self._threads), np.errstate(all="ignore"):
            _check_subnormals()
            for task, operands, run in jobs:
                flats = [pools[operand.origin].get(operand.reference) for operand in operands]
                for index, output in zip(task.kept, run(flats, step), strict=True):
                    values[index] = output if patch is None else self._replace(index, output, patch)
                    if observe is not None:
                        observe(index, values[index])
                for index in task.dead:
                    del values[index]
        return {index: values[index] for index in wanted}

    def _replace(self, index: int, output: Array, patch: Patch) -> Array:
        patched = patch(index, output)
        node = self.program.nodes[index]
        assert (patched.dtype, patched.shape) == (NUMPY_TYPES[node.dtype], node.shape)
        return np.asarray(patched, order="C")


@contextmanager
def _using(threads: int | None) -> Iterator[None]:
    before = get_threads()
    set_threads(threads or before)
    try:
        yield
    finally:
        set_threads(before)


def _admit(arrays: Sequence[Array], slots: Sequence[Slot]) -> list[Array]:
    """Return arrays that fit their slots, contiguous."""
    if len(arrays) != len(slots):
        raise ProgramError(f"{len(arrays)} tensors were given for {len(slots)} slots")
    for array, slot in zip(arrays, slots, strict=True):
        if (array.dtype, array.shape) != (NUMPY_TYPES[slot.dtype], slot.shape):
            raise ProgramError(
                f"slot {slot.name} is {slot.dtype.name} {slot.shape}, "
                f"but the tensor given for it is {array.dtype} {array.shape}"
            )
    return [np.asarray(array, order="C") for array in arrays]


def _check_subnormals() -> None:
    """Refuse to compute on a thread that something has told to flush subnormal numbers to zero."""
    if not (_SMALLEST * np.float32(1)).any():
        raise RuntimeError(
            "this thread flushes subnormal numbers to zero; undo that before running"
        )
