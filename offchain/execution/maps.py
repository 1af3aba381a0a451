"""The plans of maps that are computed one by one, in blocks that threads share."""

from collections.abc import Sequence
from math import prod

import numpy as np

from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.execution.accesses import Sizes, Strided, row_major
from offchain.execution.scalars import Apply, get_function
from offchain.execution.views import Reader, view
from offchain.native import buffers
from offchain.native.threads import share
from offchain.programs.graph import Node, Operand, Origin

_BLOCK_ELEMENTS = 1 << 16
_GRAIN_ELEMENTS = 1 << 18
"""Elements that make another thread worth its start."""


def is_identity(operand: Operand, sizes: Sizes) -> bool:
    """Whether an access reads its operand element by element in the order of the domain."""
    reader = Reader(operand, sizes) if operand.origin is not Origin.IMMEDIATE else None
    if reader is None or not reader.is_view:
        return False
    strides = zip(sizes, reader.strided.strides, row_major(sizes), strict=True)
    return reader.strided.offset == 0 and all(a == b for size, a, b in strides if size > 1)


def is_whole(operand: Operand, sizes: Sizes) -> bool:
    """Whether an access reads all of a tensor, element by element."""
    is_of_all = prod(row.size for row in operand.rows) == prod(sizes)
    return is_of_all and is_identity(operand, sizes)


class Map:
    """The plan of one map.

    Args:
        node: a map node with a positive number of elements.
        apply: the function on arrays; the arithmetic's if None.
    """

    def __init__(self, node: Node, apply: Apply | None = None) -> None:
        types = [operand.dtype for operand in node.operands]
        self._apply = apply or get_function(node.function, types, node.dtype)
        self._shape, self._dtype = node.shape, NUMPY_TYPES[node.dtype]
        self._readers = [Reader(operand, node.shape) for operand in node.operands]
        layouts = [row_major(node.shape), *(r.strided.strides for r in self._readers)]
        self._nested, (_, *strides) = coalesce(node.shape, layouts)
        self._views = [
            None if is_whole(operand, node.shape) else Strided(reader.strided.offset, own)
            for operand, reader, own in zip(node.operands, self._readers, strides, strict=True)
        ]
        self._blocks = _Blocks(self._nested)

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of the operands (None for constants), or more."""
        operands = [
            reader.buffer(flat).reshape(self._nested)
            if strided is None
            else view(reader.buffer(flat), self._nested, strided)
            for reader, flat, strided in zip(self._readers, flats, self._views, strict=False)
        ]
        output = buffers.empty(self._shape, self._dtype)
        wholes = [output.reshape(self._nested), *operands]
        if self._blocks.count == 1:
            with np.errstate(all="ignore"):
                self._apply(*wholes)
            return output
        grain = max(1, _GRAIN_ELEMENTS // self._blocks.elements)
        share(lambda *blocks: self._compute(wholes, range(*blocks)), self._blocks.count, grain)
        return output

    @np.errstate(all="ignore")
    def _compute(self, wholes: Sequence[Array], blocks: range) -> None:
        for block in blocks:
            index = self._blocks.locate(block)
            self._apply(*[whole[index] for whole in wholes])


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
        self.elements = self._length * prod(inner)

    def locate(self, block: int) -> tuple[int | slice, ...]:
        """Return a block's index."""
        outer, part = divmod(block, self._parts)
        start = part * self._length
        stop = min(start + self._length, self._extent)
        leading = tuple(int(i) for i in np.unravel_index(outer, self._outer)) if outer else ()
        leading = leading or (0,) * len(self._outer)
        return (*leading, slice(start, stop))


def coalesce(shape: Sizes, layouts: Sequence[Sequence[int]]) -> tuple[Sizes, list[tuple[int, ...]]]:
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
