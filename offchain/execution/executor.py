"""The fast executor: runs a program's operators, bit for bit as `programs/semantics.py` says."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from offchain.arithmetic.environment import require_standard, standard_environment
from offchain.arithmetic.functions import DType
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.errors import ProgramError
from offchain.execution.kernels.threads import get_threads, set_threads
from offchain.execution.logged.journals import Journal
from offchain.execution.memory import check_memory
from offchain.execution.preparation import Preparation, Ready
from offchain.programs.graph import Origin, Program, Slot

Observe = Callable[[int, Array], None]
"""(index of an operator, its output): may keep the output, must not write to it."""

Patch = Mapping[int, Callable[[Array], Array]]
"""Index of an operator: (its output) -> a tensor in its place; must not write to the output."""

Watch = Callable[[Sequence[int], float], None]
"""(indices of operators that run together, the seconds that they took)."""


class Executor:
    """Runs the steps of one program on tensors, which are arrays of the slots' types and shapes.

    Outputs depend on the program, the inputs and the step alone: not on the number of threads, on
    how the calling thread rounds, nor on who looks on. They may share memory with the inputs, so
    that neither may be written to.

    Args:
        program: the program, or its preparation, which executors may share.
        threads: threads that kernels use while it runs; None leaves the setting of the process.

    Raises:
        ProgramError: the program is malformed.
    """

    def __init__(self, program: Program | Preparation, threads: int | None = None) -> None:
        self._prepared = Preparation(program) if isinstance(program, Program) else program
        self.program = self._prepared.program
        self._threads = threads

    @standard_environment()
    def run(
        self,
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        observe: Observe | None = None,
        patch: Patch | None = None,
        journal: Journal | None = None,
    ) -> list[Array]:
        """Run one step.

        Args:
            state: the tensors of the state's slots.
            batch: the tensors of the batch's slots.
            step: number of the step, which random operators depend on.
            observe: is shown the output of every operator, after those of what the operator reads.
            patch: replaces outputs before they are observed and read.
            journal: reads or writes the step's log, if the arithmetic has logs.

        Returns:
            The tensors of the next state.

        Raises:
            ProgramError: an input has another type or shape than its slot.
            NotEnoughMemory: the step does not fit into memory; nothing was computed.
            UnsuitableEnvironment: something changed how the thread rounds during the run.
        """
        prepared, sinks = self._prepared, self._prepared.sinks
        if observe is None:
            ready = prepared.prepare(sinks, patch) if patch else prepared.fused
        else:
            ready = prepared.show(patch) if patch else prepared.shown
        outputs = self._execute(ready, state, batch, step, sinks, observe, patch, journal)
        return [outputs[index] for index in sinks]

    @standard_environment()
    def advance(
        self,
        state: list[Array],
        batch: Sequence[Array],
        step: int,
        watch: Watch | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Run one step, and replace the tensors of `state` by those of the next state.

        A tensor that nobody else holds gives its memory to the next state when it was read for the
        last time. Where the run fails after it has begun, the list is left empty.

        Arguments and errors are those of `run`; `watch` is told how long everything takes.
        """
        ready, sinks = self._prepared.replacing, self._prepared.sinks
        outputs = self._execute(ready, state, batch, step, sinks, None, None, journal, state, watch)
        state.extend(outputs[index] for index in sinks)

    @standard_environment()
    def outputs(
        self,
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        wanted: Collection[int],
        patch: Patch | None = None,
        journal: Journal | None = None,
    ) -> dict[int, Array]:
        """Return the outputs of some operators, by running those on which they depend.

        Arguments and errors are those of `run`; `patch` sees only operators that run.
        """
        ready = self._prepared.prepare(wanted, patch or ())
        return self._execute(ready, state, batch, step, wanted, None, patch, journal)

    def _execute(
        self,
        ready: Ready,
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        wanted: Collection[int],
        observe: Observe | None,
        patch: Patch | None,
        journal: Journal | None,
        given: list[Array] | None = None,
        watch: Watch | None = None,
    ) -> dict[int, Array]:
        """Run tasks; `given` is a list of the state's tensors to empty, so that they may die."""
        values: dict[int, Array] = {}
        tensors = dict(enumerate(admit(state, self.program.state)))
        pools: dict[Origin, Mapping[int, Array]] = {
            Origin.IMMEDIATE: {},
            Origin.NODE: values,
            Origin.STATE: tensors,
            Origin.BATCH: dict(enumerate(admit(batch, self.program.batch))),
        }
        check_memory(ready.needed_bytes)
        if given is not None:
            given.clear()
        with _using(self._threads), np.errstate(all="ignore"):
            for task, dead_slots, operands, run in ready.jobs:
                flats = [pools[operand.origin].get(operand.reference) for operand in operands]
                begun = time.perf_counter()
                outputs = run(flats, step, journal)
                require_standard()
                if watch is not None:
                    watch(task.members, time.perf_counter() - begun)
                for index, output in zip(task.kept, outputs, strict=True):
                    replace = patch and patch.get(index)
                    values[index] = self._fit(index, replace(output)) if replace else output
                    if observe is not None:
                        observe(index, values[index])
                for index in task.dead:
                    del values[index]
                for slot in dead_slots:
                    del tensors[slot]
        return {index: values[index] for index in wanted}

    def _fit(self, index: int, patched: Array) -> Array:
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


def admit(arrays: Sequence[Array], slots: Sequence[Slot]) -> list[Array]:
    """Return arrays that fit their slots and are canonical, contiguous.

    Raises:
        ProgramError: there are more or fewer than slots, or one has another type or shape.
    """
    if len(arrays) != len(slots):
        raise ProgramError(f"{len(arrays)} tensors were given for {len(slots)} slots")
    for array, slot in zip(arrays, slots, strict=True):
        if (array.dtype, array.shape) != (NUMPY_TYPES[slot.dtype], slot.shape):
            raise ProgramError(
                f"slot {slot.name} is {slot.dtype.name} {slot.shape}, "
                f"but the tensor given for it is {array.dtype} {array.shape}"
            )
        if slot.dtype is DType.BOOL and array.view(np.uint8).max(initial=0) > 1:
            raise ProgramError(f"slot {slot.name} is BOOL, but has bytes that are neither 0 nor 1")
    return [np.asarray(array, order="C") for array in arrays]
