"""The plans of maps that are computed one by one, in blocks that threads share."""

from collections.abc import Sequence
from math import prod

import numpy as np

from moot.offchain.arithmetic.functions import Function
from moot.offchain.backends.cpu.calls import lay_out, lay_out_whole, list_copies
from moot.offchain.backends.cpu.scalars import Apply, get_function
from moot.offchain.backends.cpu.turns import find_turned
from moot.offchain.backends.cpu.views import SHORT_ELEMENTS, Reader, view
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place
from moot.offchain.native.threads import share
from moot.offchain.planning.accesses import Sizes, Strided, coalesce, row_major
from moot.offchain.planning.readings import is_whole
from moot.offchain.programs.graph import Node

_BLOCK_ELEMENTS = 1 << 16
_BLOCK_POWERS = 1 << 22
"""The same of powers, which are computed in few calls that share ranges out themselves."""

_GRAIN_ELEMENTS = 1 << 18
"""Elements that make another thread worth its start."""


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
        is_power = node.function is Function.POW and apply is None
        self._blocks = _Blocks(self._nested, _BLOCK_POWERS if is_power else _BLOCK_ELEMENTS)
        self._turned = None
        self._is_copy = node.function is Function.COPY and apply is None
        if self._is_copy:
            layout = row_major(self._nested), strides[0]
            self._turned = find_turned(self._nested, self._dtype.itemsize, layout)

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
        if self._turned is not None:
            self._turned.run(*wholes)
            return output
        if self._blocks.count == 1:
            with np.errstate(all="ignore"):
                self._apply(*wholes)
            return output
        grain = max(1, _GRAIN_ELEMENTS // self._blocks.elements)
        share(lambda *blocks: self._compute(wholes, range(*blocks)), self._blocks.count, grain)
        return output

    @property
    def is_called(self) -> bool:
        """Whether it is a copy, and a few calls of machine code make it as fast as any."""
        is_short = self._turned is not None or prod(self._shape) <= SHORT_ELEMENTS
        return self._is_copy and is_short and self._readers[0].is_short

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the output."""
        (reader,), (target,), width = self._readers, targets, self._dtype.itemsize
        start, copies = reader.list_calls(sources[0], memory)
        source = lay_out(start, width, self._shape, reader.strided)
        out = lay_out_whole(target, width, self._shape)
        return [*copies, *list_copies(source, out, memory)]

    @np.errstate(all="ignore")
    def _compute(self, wholes: Sequence[Array], blocks: range) -> None:
        for block in blocks:
            index = self._blocks.locate(block)
            self._apply(*[whole[index] for whole in wholes])


class _Blocks:
    """The blocks of an array: all indices before some axis, and a part of that axis.

    Args:
        shape: the array's.
        most: elements of a block.
    """

    def __init__(self, shape: Sizes, most: int) -> None:
        axis = next(i for i in range(len(shape)) if prod(shape[i + 1 :]) <= most)
        inner = shape[axis + 1 :]
        self._outer = shape[:axis]
        self._extent = shape[axis]
        self._length = min(max(1, most // prod(inner)), self._extent)
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
