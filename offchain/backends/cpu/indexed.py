"""The plans of gathers and scatters whose indices are coordinates, which one kernel computes."""

import ctypes
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.calls import share_out
from moot.offchain.backends.cpu.kernels.fused.indexed import Index, Indexed, Kernel, compile_indexed
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.commitments.tensors import Array
from moot.offchain.native.buffers import get_address
from moot.offchain.native.sequences import Block, Call, Word
from moot.offchain.planning.accesses import Sizes, Strided, coalesce, row_major
from moot.offchain.planning.gathers import INTEGERS, Coordinate, find_addressed
from moot.offchain.programs.graph import Node

_GRAIN_ELEMENTS = 1 << 16
"""Elements that make another thread worth its start."""

_LEAST_PART = 128
"""Elements of every row that are worth another thread, if each thread takes a part of all rows."""


class IndexedTask:
    """The loops of a gather or a scatter.

    Args:
        dtype: the type of the elements.
        function: what a scatter folds with, None for a gather.
        fill: the bits that a gather copies where an index is out of range.
        sizes: the extents of the variables.
        groups: the variables, as the loops nest them; loops of different groups are not merged.
        near: the access to the near tensor.
        far: the access to the far one, where all indices are 0.
        readers: the readers of the indices.
        coordinates: what they address.
        shared: the group of which threads take parts, None if there is none.

    Attributes:
        turns: how many parts there are.
    """

    def __init__(
        self,
        dtype: DType,
        function: Function | None,
        fill: int,
        sizes: Sizes,
        groups: Sequence[Sequence[int]],
        near: Strided,
        far: Strided,
        readers: Sequence[Reader],
        coordinates: Sequence[Coordinate],
        shared: int | None,
    ) -> None:
        moved = [readers[c.operand] for c in coordinates]
        accesses = [near, far, *(reader.strided for reader in moved)]
        loops: list[int] = []
        strides: list[list[int]] = [[] for _ in accesses]
        parted = 0
        for number, group in enumerate(groups):
            layouts = [[access.strides[v] for v in group] for access in accesses]
            if number == shared:
                parted = len(loops)
            if prod(sizes[v] for v in group) == 1 and number != shared and loops:
                continue
            merged, steps = coalesce(tuple(sizes[v] for v in group), layouts)
            loops += merged
            for all_steps, new in zip(strides, steps, strict=True):
                all_steps.extend(new)
        mine, theirs, *others = map(tuple, strides)
        self._task = Indexed(
            dtype,
            function,
            fill,
            tuple(loops),
            (near.offset, mine),
            (far.offset, theirs),
            tuple(
                Index(reader.operand.dtype, reader.strided.offset, own, c.size, c.step)
                for reader, own, c in zip(moved, others, coordinates, strict=True)
            ),
            parted,
        )
        self.turns = loops[parted]
        self.step = theirs[parted]
        self._places = [c.operand for c in coordinates]
        self._pointers = ctypes.c_int64 * len(coordinates)
        self.grain = max(1, _GRAIN_ELEMENTS * self.turns // prod(loops))
        if shared is None:
            self.grain = self.turns
        elif parted:
            self.grain = -(-max(self.grain, _LEAST_PART) // _LEAST_PART) * _LEAST_PART

    @cached_property
    def _kernel(self) -> Kernel:
        return compile_indexed(self._task)

    def bind(self, near: Array, far: Array, indices: Sequence[Array]) -> "Bound":
        """Return the task on tensors, which are contiguous; `indices` are the readers' buffers."""
        places = self._pointers(*(get_address(indices[place]) for place in self._places))
        held = (near, far, *indices)
        return Bound(self._kernel, get_address(near), get_address(far), places, held)

    def make_call(self, near: Word, far: Word, indices: Sequence[Word]) -> Call:
        """Return the call that runs it on tensors by where they will be."""
        places = Block(tuple(indices[place] for place in self._places))
        return share_out(Call(self._kernel.address, (near, far, places, 0, self.turns)), self.grain)


class Bound(NamedTuple):
    """An indexed task with the addresses of its tensors, and the tensors, so that they stay."""

    kernel: Kernel
    near: int
    far: int
    indices: "ctypes.Array[ctypes.c_int64]"
    held: tuple[Array, ...]

    def run(self, first: int, stop: int) -> None:
        """Run a part."""
        self.kernel.run(self.near, self.far, ctypes.addressof(self.indices), first, stop)


def find_gather(node: Node, readers: Sequence[Reader]) -> IndexedTask | None:
    """Return the loops of a gather, or None where an index is not a coordinate by itself."""
    found = find_addressed(node)
    if found is None:
        return None
    return IndexedTask(
        node.dtype,
        None,
        node.operands[0].value,
        node.shape,
        [range(len(node.shape))],
        Strided(0, row_major(node.shape)),
        found.strided,
        readers,
        found.coordinates,
        0,
    )


def find_scatter(node: Node, source: Reader, indices: Sequence[Reader]) -> IndexedTask | None:
    """Return the loops of a scatter, or None where two indices name one dimension.

    What the fold is nested in or nests, no element sees: its terms come in the same order. So it is
    outside of those dimensions whose neighbours are closer together than those that are named.

    Args:
        node: a scatter node whose source and indices don't depend on the named dimensions.
        source: the reader of its source, and
        indices: those of its indices, on the variables of the output and of the fold.
    """
    rank = len(node.shape)
    far = list(row_major(node.shape))
    targets = node.targets
    if len(set(targets)) < len(targets) or not _are_integers(indices):
        return None
    coordinates = [
        Coordinate(place, node.shape[target], far[target]) for place, target in enumerate(targets)
    ]
    strides = [0 if v in targets else step for v, step in enumerate(far)]
    free = [v for v in range(rank) if v not in targets and node.shape[v] > 1]
    inner = [v for v in free if v > min(targets)]
    outer = [v for v in free if v not in inner]
    fold = range(rank, rank + len(node.fold_shape))
    return IndexedTask(
        node.dtype,
        node.function,
        0,
        node.shape + node.fold_shape,
        [outer, fold, inner],
        source.strided,
        Strided(0, (*strides, *(0 for _ in node.fold_shape))),
        indices,
        coordinates,
        0 if outer else 2 if inner else None,
    )


def _are_integers(readers: Sequence[Reader]) -> bool:
    return all(reader.operand.dtype in INTEGERS for reader in readers)
