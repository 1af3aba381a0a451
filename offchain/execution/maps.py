"""Maps, alone or in groups of one shape, by blocks: what a group does not keep stays in cache."""

from collections.abc import Collection, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from offchain.arithmetic.functions import DType
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.execution.accesses import Sizes, Strided, row_major
from offchain.execution.kernels.threads import share
from offchain.execution.scalars import Apply, get_function
from offchain.execution.views import Reader, view
from offchain.programs.graph import Node, Operand, Origin

_BLOCK_ELEMENTS = 1 << 14
_GRAIN_ELEMENTS = 1 << 18
"""Elements, times the maps of the group, that are worth another thread."""


class _Step(NamedTuple):
    """One map of a group: reads some slots and writes another one."""

    apply: Apply
    arguments: tuple[int, ...]
    slot: int


class _Program(NamedTuple):
    """A group's steps on slots: the operands, then the wanted outputs, then scratch.

    Scratch that is not read any more is written again, so that a block's slots stay in cache.
    """

    steps: list[_Step]
    wanted: list[DType]
    scratch: list[DType]


def is_identity(operand: Operand, sizes: Sizes) -> bool:
    """Whether an access reads its operand element by element in the order of the domain."""
    reader = Reader(operand, sizes) if operand.origin is not Origin.IMMEDIATE else None
    if reader is None or not reader.is_view:
        return False
    strides = zip(sizes, reader.strided.strides, row_major(sizes), strict=True)
    return reader.strided.offset == 0 and all(a == b for size, a, b in strides if size > 1)


class MapGroup:
    """Maps (and moves that are one strided view) of one shape that are computed together.

    Args:
        members: the nodes with their indices, ascending. Where one reads the output of another, it
            reads it as `is_identity` says.
        kept: indices of the members whose outputs are wanted.

    Attributes:
        operands: what the group reads from outside.
        kept: the wanted members, ascending.
    """

    def __init__(self, members: Sequence[tuple[int, Node]], kept: Collection[int]) -> None:
        self.operands = _list_operands(members)
        self.kept = tuple(index for index, _ in members if index in kept)
        shape = members[0][1].shape
        self._shape = shape
        self._program = _assemble(members, self.operands, self.kept)
        self._readers = [Reader(operand, shape) for operand in self.operands]
        layouts = [row_major(shape), *(reader.strided.strides for reader in self._readers)]
        self._nested, (_, *strides) = _coalesce(shape, layouts)
        self._views = [
            Strided(reader.strided.offset, own)
            for reader, own in zip(self._readers, strides, strict=True)
        ]
        self._blocks = _Blocks(self._nested)

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the wanted outputs, given the tensors of the operands (None for constants)."""
        slots = [
            view(reader.buffer(flat), self._nested, strided)
            for reader, flat, strided in zip(self._readers, flats, self._views, strict=True)
        ]
        outputs = [np.empty(self._shape, NUMPY_TYPES[dtype]) for dtype in self._program.wanted]
        slots += [output.reshape(self._nested) for output in outputs]
        cost = self._blocks.elements * len(self._program.steps)
        grain = max(1, _GRAIN_ELEMENTS // cost)
        share(lambda *blocks: self._compute(slots, range(*blocks)), self._blocks.count, grain)
        return outputs

    @np.errstate(all="ignore")
    def _compute(self, slots: Sequence[Array], blocks: range) -> None:
        steps, _, scratch = self._program
        spare = [np.empty(self._blocks.shape, NUMPY_TYPES[dtype]) for dtype in scratch]
        for block in blocks:
            index, length = self._blocks.locate(block)
            parts = [whole[index] for whole in slots] + [array[:length] for array in spare]
            for apply, arguments, slot in steps:
                apply(parts[slot], *[parts[argument] for argument in arguments])


class _Blocks:
    """The blocks of an array: all indices before some axis, and a part of that axis."""

    def __init__(self, shape: Sizes) -> None:
        axis = next(i for i in range(len(shape)) if prod(shape[i + 1 :]) <= _BLOCK_ELEMENTS)
        inner = shape[axis + 1 :]
        self._outer = shape[:axis]
        self._extent = shape[axis]
        self._length = min(max(1, _BLOCK_ELEMENTS // prod(inner)), self._extent)
        self._parts = -(-self._extent // self._length)
        self.count = prod(self._outer) * self._parts
        self.shape = (self._length, *inner)
        self.elements = prod(self.shape)

    def locate(self, block: int) -> tuple[tuple[int | slice, ...], int]:
        """Return a block's index, and how long it is along its first axis."""
        outer, part = divmod(block, self._parts)
        start = part * self._length
        stop = min(start + self._length, self._extent)
        leading = tuple(int(i) for i in np.unravel_index(outer, self._outer)) if outer else ()
        leading = leading or (0,) * len(self._outer)
        return (*leading, slice(start, stop)), stop - start


def _list_operands(members: Sequence[tuple[int, Node]]) -> list[Operand]:
    inside = {index for index, _ in members}
    operands = [
        operand
        for _, node in members
        for operand in node.operands
        if operand.origin is not Origin.NODE or operand.reference not in inside
    ]
    return list(dict.fromkeys(operands))


def _assemble(
    members: Sequence[tuple[int, Node]], operands: Sequence[Operand], kept: Sequence[int]
) -> _Program:
    outside = {operand: slot for slot, operand in enumerate(operands)}
    slots = {index: len(operands) + place for place, index in enumerate(kept)}
    wanted = [node.dtype for index, node in members if index in slots]
    reads = [(index, o) for index, node in members for o in node.operands if o not in outside]
    last = {operand.reference: index for index, operand in reads}
    scratch: list[DType] = []
    idle: dict[DType, list[int]] = {dtype: [] for dtype in DType}
    steps = []
    for index, node in members:
        if index not in slots:
            if not idle[node.dtype]:
                idle[node.dtype].append(len(operands) + len(kept) + len(scratch))
                scratch.append(node.dtype)
            slots[index] = idle[node.dtype].pop()
        inside = [operand for operand in node.operands if operand not in outside]
        arguments = tuple(
            outside[operand] if operand in outside else slots[operand.reference]
            for operand in node.operands
        )
        types = [operand.dtype for operand in node.operands]
        apply = get_function(node.function, types, node.dtype)
        steps.append(_Step(apply, arguments, slots[index]))
        for reference, dtype in {operand.reference: operand.dtype for operand in inside}.items():
            if last[reference] == index and reference not in kept:
                idle[dtype].append(slots[reference])
    return _Program(steps, wanted, scratch)


def _coalesce(
    shape: Sizes, layouts: Sequence[Sequence[int]]
) -> tuple[Sizes, list[tuple[int, ...]]]:
    """Merge the axes of a shape that every layout nests seamlessly; at least one axis remains."""
    sizes: list[int] = []
    columns: list[tuple[int, ...]] = []
    for axis, size in enumerate(shape):
        strides = tuple(layout[axis] for layout in layouts)
        if size == 1:
            continue
        if sizes and columns[-1] == tuple(stride * size for stride in strides):
            sizes[-1] *= size
            columns[-1] = strides
        else:
            sizes.append(size)
            columns.append(strides)
    if not sizes:
        return (1,), [(0,)] * len(layouts)
    return tuple(sizes), [tuple(column[i] for column in columns) for i in range(len(layouts))]
