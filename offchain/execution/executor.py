"""The fast executor: runs a program's operators, bit for bit as `programs/semantics.py` says."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from moot.offchain.arithmetic.environment import require_standard, standard_environment
from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.port import Backend, Journal, Tensor
from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.errors import ProgramError, UnsuitableEnvironment
from moot.offchain.execution.preparation import Preparation, Ready
from moot.offchain.execution.residents import Resident
from moot.offchain.native.threads import get_threads, set_threads
from moot.offchain.programs.graph import Program, Slot

_BOOL = NUMPY_TYPES[DType.BOOL]

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
        backend: the name of what computes; that of a preparation is its own.

    Raises:
        ProgramError: the program is malformed.
        UsageError: there is no such backend, or it does not compute the program's arithmetic.
    """

    def __init__(
        self, program: Program | Preparation, threads: int | None = None, backend: str = DEFAULT
    ) -> None:
        if isinstance(program, Program):
            program = Preparation(program, backend)
        self._prepared = program
        self.program = program.program
        self._threads = threads

    @property
    def backend(self) -> Backend:
        """What computes."""
        return self._prepared.backend

    def run(
        self,
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        observe: Observe | None = None,
        patch: Patch | None = None,
        journal: Journal | None = None,
        kept: dict[int, Array] | None = None,
    ) -> list[Array]:
        """Run one step.

        Args:
            state: the tensors of the state's slots.
            batch: the tensors of the batch's slots.
            step: number of the step, which random operators depend on.
            observe: is shown the output of every operator, after those of what the operator reads.
            patch: replaces outputs before they are observed and read.
            journal: reads or writes the step's log, if the arithmetic has logs.
            kept: is given some of the outputs that are observed, by operator, from which `outputs`
                computes others sooner; they take no more memory than the run does in between.

        Returns:
            The tensors of the next state.

        Raises:
            ProgramError: an input has another type or shape than its slot.
            NotEnoughMemory: the step does not fit into memory; nothing was computed.
            UnsuitableEnvironment: something changed how the thread rounds during the run.
        """
        whole = self._prepared.whole
        if whole is not None and observe is None and not patch and journal is None:
            found = whole.run(state, batch)
            if found is not None:
                return found
        return self._run(state, batch, step, observe, patch, journal, kept)

    @standard_environment()
    def _run(
        self,
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        observe: Observe | None,
        patch: Patch | None,
        journal: Journal | None,
        kept: dict[int, Array] | None,
    ) -> list[Array]:
        """Run one step, task by task."""
        prepared, sinks = self._prepared, self._prepared.sinks
        if observe is None:
            ready = prepared.prepare(sinks, patch) if patch else prepared.choose()
        else:
            ready = prepared.show(patch) if patch else prepared.shown
            observe = observe if kept is None else _keeping(observe, ready.keeps, kept)
        outputs = self._execute(ready, state, batch, step, sinks, observe, patch, journal)
        return [self._prepared.backend.fetch(outputs[index]) for index in sinks]

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
        last time. Where the run fails after it has begun, the list is left empty. A backend with a
        memory of its own keeps the tensors there: the list has a `Resident` of each, which may be
        given to the next step, and is an array for whoever wants one.

        Arguments and errors are those of `run`; `watch` is told how long everything takes.
        """
        whole = self._prepared.whole
        if whole is not None and watch is None and journal is None:
            try:
                found = whole.run(state, batch)
            except UnsuitableEnvironment:
                state.clear()
                raise
            if found is not None:
                state[:] = found
                return
        self._advance(state, batch, step, watch, journal)

    @standard_environment()
    def _advance(
        self,
        state: list[Array],
        batch: Sequence[Array],
        step: int,
        watch: Watch | None,
        journal: Journal | None,
    ) -> None:
        """Run one step, task by task; one by one if somebody wants to know how long they take."""
        prepared, sinks = self._prepared, self._prepared.sinks
        ready = prepared.choose(replaces=True) if watch is None else prepared.replacing
        outputs = self._execute(ready, state, batch, step, sinks, None, None, journal, state, watch)
        state.extend(self._prepared.keep(outputs[index] for index in sinks))

    @standard_environment()
    def outputs(
        self,
        state: Sequence[Array],
        batch: Sequence[Array],
        step: int,
        wanted: Collection[int],
        patch: Patch | None = None,
        journal: Journal | None = None,
        known: Mapping[int, Array] = MappingProxyType({}),
    ) -> dict[int, Array]:
        """Return the outputs of some operators, by running those on which they depend.

        Arguments and errors are those of `run`; `patch` sees only operators that run. `known` are
        outputs of the same run, of which nothing else is computed again.
        """
        prepared, backend = self._prepared, self._prepared.backend
        ready = prepared.prepare(wanted, patch or (), known)
        found = self._execute(ready, state, batch, step, wanted, None, patch, journal, known=known)
        return {index: backend.fetch(tensor) for index, tensor in found.items()}

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
        known: Mapping[int, Array] = MappingProxyType({}),
    ) -> dict[int, Tensor]:
        """Run tasks; `given` is a list of the state's tensors to empty, so that they may die."""
        program, backend = self.program, self._prepared.backend
        given_arrays = [*admit(state, program.state), *admit(batch, program.batch)]
        backend.require_memory(ready.needed_bytes)
        tensors: list[Tensor | None] = [None, *(_bring_in(x, backend) for x in given_arrays)]
        tensors += [None] * (len(program.nodes) + len(ready.copies))
        for index in ready.places.keys() & known.keys():
            tensors[ready.places[index]] = backend.admit(known[index])
        del given_arrays
        if given is not None:
            given.clear()
        with _using(self._threads), np.errstate(all="ignore"):
            for members, kept, reads, writes, ends, run, *_ in ready.jobs:
                begun = time.perf_counter() if watch is not None else 0.0
                if run is not None:
                    outputs = run([tensors[place] for place in reads], step, journal)
                    require_standard()
                    if patch is not None or observe is not None:
                        outputs = self._show(kept, outputs, observe, patch)
                    for place, output in zip(writes, outputs, strict=True):
                        tensors[place] = output
                if watch is not None:
                    watch(members, time.perf_counter() - begun)
                for place in ends:
                    tensors[place] = None
        return {index: tensors[ready.places[index]] for index in wanted}

    def _show(
        self,
        indices: Sequence[int],
        outputs: Sequence[Tensor],
        observe: Observe | None,
        patch: Patch | None,
    ) -> list[Tensor]:
        """Return the outputs of a task as they are replaced, after they have been observed."""
        backend, shown = self._prepared.backend, []
        for index, output in zip(indices, outputs, strict=True):
            replace = patch and patch.get(index)
            if replace:
                output = backend.admit(self._fit(index, replace(backend.fetch(output))))  # noqa: PLW2901 - it is another from here on
            shown.append(output)
            if observe is not None:
                observe(index, backend.fetch(output))
        return shown

    def _fit(self, index: int, patched: Array) -> Array:
        node = self.program.nodes[index]
        assert (patched.dtype, patched.shape) == (NUMPY_TYPES[node.dtype], node.shape)
        return np.asarray(patched, order="C")


def _keeping(observe: Observe, keeps: Collection[int], kept: dict[int, Array]) -> Observe:
    """Return what keeps some outputs, and lets them be observed."""

    def keep(index: int, output: Array) -> None:
        if index in keeps:
            kept[index] = output
        observe(index, output)

    return keep


class _using:  # noqa: N801 - it is used as a function is
    """Let kernels use some threads, None for those that they use already."""

    def __init__(self, threads: int | None) -> None:
        self._before = get_threads()
        self._threads = threads

    def __enter__(self) -> None:
        if self._threads is not None:
            set_threads(self._threads)

    def __exit__(self, *_: object) -> None:
        set_threads(self._before)


def _bring_in(array: Array | Resident, backend: Backend) -> Tensor:
    """Return an array, or what a backend has kept, as the backend holds it."""
    return array.hand_over(backend) if isinstance(array, Resident) else backend.admit(array)


def admit(arrays: Sequence[Array | Resident], slots: Sequence[Slot]) -> list[Any]:
    """Return arrays that fit their slots and are canonical, contiguous; residents as they are.

    Raises:
        ProgramError: there are more or fewer than slots, or one has another type or shape.
    """
    if len(arrays) != len(slots):
        raise ProgramError(f"{len(arrays)} tensors were given for {len(slots)} slots")
    for array, slot in zip(arrays, slots, strict=True):
        wanted = NUMPY_TYPES[slot.dtype]
        if array.dtype != wanted or array.shape != slot.shape:
            raise ProgramError(
                f"slot {slot.name} is {slot.dtype.name} {slot.shape}, "
                f"but the tensor given for it is {array.dtype} {array.shape}"
            )
        if wanted is not _BOOL or isinstance(array, Resident):
            continue
        if array.view(np.uint8).max(initial=0) > 1:
            raise ProgramError(f"slot {slot.name} is BOOL, but has bytes that are neither 0 nor 1")
    return [x if isinstance(x, Resident) else np.asarray(x, order="C") for x in arrays]
