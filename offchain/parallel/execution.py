"""The execution of one worker's part of a program's steps."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from moot.offchain.arithmetic.environment import require_standard, standard_environment
from moot.offchain.backends.port import Plan
from moot.offchain.backends.table import DEFAULT, get_backend, get_folding
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.parallel.partition import (
    Part,
    Partition,
    Place,
    Share,
    cut,
    get_place,
    get_range,
)
from moot.offchain.programs.graph import Node, Origin, Program
from moot.offchain.programs.legality import check_program


class Exchange(Protocol):
    """A way to the other workers, who all call the same methods in the same order."""

    def add_up(self, array: Array) -> None:
        """Replace an array of integers by the sum of all workers' arrays."""

    def hand_out(self, array: Array, owner: int) -> None:
        """Replace an array of bytes by that of one worker."""


class ParallelExecutor:
    """A worker's executor; all workers run the same steps, and come to the same state.

    A tensor that is shared out has its full size here, zeros in place of others' samples. It is
    made whole where every worker hands out its own samples, or one worker the tensor that it owns.

    Args:
        program: the program.
        shares: how its operators are shared out.
        rank: the worker's number.
        exchange: the way to the other workers.
        backend: the name of what computes.
        tell: is given what this worker computes of each operator, in order.

    Raises:
        ProgramError: the program is malformed.
    """

    @standard_environment()
    def __init__(
        self,
        program: Program,
        shares: Partition,
        rank: int,
        exchange: Exchange,
        backend: str = DEFAULT,
        tell: Callable[[Array | None], None] | None = None,
    ) -> None:
        check_program(program)
        self._program = program
        self._shares = shares
        self._rank = rank
        self._exchange, self._tell = exchange, tell
        self._cut = [
            self._cut_node(*pair) for pair in zip(program.nodes, shares.parts, strict=True)
        ]
        self._backend = get_backend(backend, program.arithmetic)
        self._folding = get_folding(self._backend, program.arithmetic)
        self._plans: list[Plan | None] = [
            None if part.share is Share.FOLD else self._backend.plan(node, program.arithmetic)
            for node, part in zip(self._cut, shares.parts, strict=True)
        ]
        self._dead = _list_dead(program)

    def _cut_node(self, node: Node, part: Part) -> Node:
        if part.share in {Share.ALL, Share.OWNED}:
            return node
        values = get_range(node, part.variable, self._shares.cuts, self._rank)
        return cut(node, part.variable, values)

    @standard_environment()
    def run(self, state: Sequence[Array], batch: Sequence[Array], step: int) -> list[Array]:
        """Run one step.

        Args:
            state: the tensors of the state's slots, whole.
            batch: the worker's own samples of the batch's slots, or its own batches' tensors.
            step: the number of the step.

        Returns:
            The tensors of the next state.
        """
        program = self._program
        tensors: dict[Place, Array] = {(Origin.STATE, k): x for k, x in enumerate(state)}
        tensors |= self._place_batch(batch)
        with np.errstate(all="ignore"):
            for index in range(len(program.nodes)):
                for place in self._shares.parts[index].whole:
                    self._merge(place, tensors[place])
                tensors[Origin.NODE, index] = self._compute(index, tensors, step)
                require_standard()
                for place in self._dead[index]:
                    tensors.pop(place, None)
        return [tensors[Origin.NODE, k] for k in range(program.first_sink, len(program.nodes))]

    def _place_batch(self, own: Sequence[Array]) -> dict[Place, Array]:
        """Return the tensors of a step's batch, with zeros in place of others' samples."""
        slots, cuts = self._program.batch, self._shares.cuts
        full = [np.zeros(slot.shape, NUMPY_TYPES[slot.dtype]) for slot in slots]
        first, stop = cuts[self._rank], cuts[self._rank + 1]
        if self._shares.is_of_batches:
            size = len(slots) // cuts[-1]
            full[first * size : stop * size] = own
        else:
            for tensor, samples in zip(full, own, strict=True):
                tensor[first:stop] = samples
        return {(Origin.BATCH, number): tensor for number, tensor in enumerate(full)}

    def _compute(self, index: int, tensors: dict[Place, Array], step: int) -> Array:
        """Return an operator's output, of which others' samples are zero; sums are whole."""
        own = self.compute_part(index, tensors, step)
        if self._tell is not None:
            self._tell(own)
        node, part = self._program.nodes[index], self._shares.parts[index]
        if part.share is Share.FOLD:
            assert own is not None
            self._exchange.add_up(own)
            init = tensors.get(get_place(node.operands[0]))
            return self._folding.finish_sums(node, init, np.asarray(own, np.int64))
        if part.inner is None and own is not None:
            return own
        full = np.zeros(node.shape, NUMPY_TYPES[node.dtype])
        if part.inner is not None and own is not None:
            first, stop = self._shares.cuts[self._rank : self._rank + 2]
            samples = full.reshape(-1, self._shares.cuts[-1], part.inner)[:, first:stop]
            samples[...] = own.reshape(samples.shape)
        return full

    def compute_part(self, index: int, tensors: Mapping[Place, Array], step: int) -> Array | None:
        """Return what this worker computes of an operator, by itself: a part, or all of it.

        Args:
            index: the operator.
            tensors: what it reads, of which only this worker's samples matter.
            step: the number of the step.

        Returns:
            Its samples of the output, its part of each sum, or the output; None if it has no part.
        """
        part, own, backend = self._shares.parts[index], self._cut[index], self._backend
        flats = [tensors.get(get_place(operand)) for operand in own.operands]
        plan = self._plans[index]
        if plan is None:
            return self._folding.add_terms(own, flats)
        is_others = part.share is Share.OWNED and part.owner != self._rank
        if is_others or (part.inner is not None and not own.elements):
            return None
        given = [None if flat is None else backend.admit(flat) for flat in flats]
        return backend.fetch(plan.run(given, step))

    def _merge(self, place: Place, tensor: Array) -> None:
        """Make a tensor whole that is shared out, or that one worker owns."""
        cuts = self._shares.cuts
        if self._shares.is_of_batches:
            self._exchange.hand_out(tensor.reshape(-1).view(np.uint8), self._find_owner(place))
            return
        whole = tensor.reshape(-1, cuts[-1], self._find_inner(place))
        for rank, (first, stop) in enumerate(pairwise(cuts)):
            if first < stop:
                samples = np.ascontiguousarray(whole[:, first:stop])
                self._exchange.hand_out(samples.reshape(-1).view(np.uint8), rank)
                if rank != self._rank:
                    whole[:, first:stop] = samples

    def _find_owner(self, place: Place) -> int:
        """Return the worker that has a tensor, of a step's batch or of an operator."""
        origin, number = place
        if origin is Origin.NODE:
            return self._shares.parts[number].owner
        cuts = self._shares.cuts
        batch = number // (len(self._program.batch) // cuts[-1])
        return next(rank for rank, stop in enumerate(cuts[1:]) if batch < stop)

    def _find_inner(self, place: Place) -> int:
        """Return the elements between one sample of a tensor and the next."""
        origin, number = place
        if origin is Origin.NODE:
            inner = self._shares.parts[number].inner
            assert inner is not None
            return inner
        return self._program.batch[number].elements // self._shares.cuts[-1]


def _list_dead(program: Program) -> list[list[Place]]:
    """Return the outputs of operators that nobody reads after each operator."""
    last = {get_place(o): index for index, node in enumerate(program.nodes) for o in node.operands}
    dead: list[list[Place]] = [[] for _ in program.nodes]
    for place, index in last.items():
        if place[0] is Origin.NODE:
            dead[index].append(place)
    return dead
