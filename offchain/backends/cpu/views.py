"""Fast readers of operands: a strided view where the access is affine, otherwise a dense copy.

A dense copy is filled with the access's fill value and then box by box.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cpu.calls import Layout, count_copies, lay_out, list_copies
from moot.offchain.backends.cpu.indexing import copy_in_range
from moot.offchain.backends.cpu.turns import Turned, find_turned
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place, Word
from moot.offchain.planning.accesses import Box, Sizes, Strided, find_boxes, row_major
from moot.offchain.planning.readings import Reading
from moot.offchain.programs.graph import Operand, Origin

SHORT_ELEMENTS = 1 << 16
"""Elements that are copied too fast for another way of copying them to matter."""

_MOST_COPIES = 16
"""Calls of machine code that fill an array at most, where calls do."""


def make_constant(dtype: DType, bits: int) -> Array:
    """Return an array of shape (1,) that holds one element of these bits."""
    return np.frombuffer(bits.to_bytes(dtype.width, "little"), NUMPY_TYPES[dtype])


def list_fills(value: Array, out: Layout, memory: Memory) -> list[Call]:
    """Return the calls that write a constant, which lives on, to every element of an array."""
    one = Layout(buffers.get_address(value), out.width, out.shape, (0,) * len(out.shape))
    return list_copies(one, out, memory)


def view(buffer: Array, shape: Sizes, strided: Strided) -> Array:
    """Return the strided view of a contiguous array of any shape."""
    width = buffer.itemsize
    strides = tuple([stride * width for stride in strided.strides])
    return np.ndarray(shape, buffer.dtype, buffer, strided.offset * width, strides)


class Reader(Reading):
    """A reader of an operand on a domain: what is said of a reading is done here."""

    def __init__(self, operand: Operand, sizes: Sizes, nest: Sequence[int] | None = None) -> None:
        super().__init__(operand, sizes, nest)
        self._constant: Array | None = None
        if operand.origin is Origin.IMMEDIATE:
            self._constant = make_constant(operand.dtype, operand.value)
        if self.nest is not None:
            nested = set(self.nest)
            self._shape = self.dense_shape
            self._domain = tuple(s if v in nested else 1 for v, s in enumerate(sizes))
            self._filler = Filler(operand, self._domain)

    @classmethod
    def of(cls, reading: Reading) -> "Reader":
        """Return the reader that does what a reading says."""
        return cls(reading.operand, reading.sizes, reading.nest)

    def buffer(self, flat: Array | None) -> Array:
        """Return the buffer under the view; `flat` is the operand's tensor, None for a constant."""
        flat = flat if self._constant is None else self._constant
        assert flat is not None
        if self.is_view:
            return flat
        dense = buffers.empty(self._shape, flat.dtype)
        self._filler.fill(view(dense, self._domain, self.strided), flat)
        return dense

    @property
    def is_short(self) -> bool:
        """Whether a few calls of machine code give the buffer, none where it is the operand."""
        return self.is_view or self._filler.is_short

    def list_calls(self, source: Place | None, memory: Memory) -> tuple[Word, list[Call]]:
        """Return where the buffer will be, and the calls that fill it."""
        if self._constant is not None:
            return buffers.get_address(self._constant), []
        assert source is not None
        if self.is_view:
            return source, []
        width = self.operand.dtype.width
        dense = memory.reserve(prod(self._shape) * width)
        whole = lay_out(dense, width, self._domain, self.strided)
        return dense, self._filler.list_calls(source, whole, memory)

    def find_buffer(self, flat: Array | None) -> Array | None:
        """Return the buffer under the view, None if the operand's tensor is not there."""
        return None if flat is None and self._constant is None else self.buffer(flat)

    def read(self, flat: Array | None) -> Array:
        """Return the elements on the whole domain, as a read-only view of its shape."""
        return view(self.buffer(flat), self.sizes, self.strided)


class AsItLies:
    """A reader of an operand whose tensor calls read where it lies."""

    is_short = True

    def buffer(self, flat: Array | None) -> Array:
        """Return the tensor."""
        assert flat is not None
        return flat

    def list_calls(self, source: Place | None, _memory: Memory) -> tuple[Word, list[Call]]:
        """Return where the tensor will be."""
        assert source is not None
        return source, []


class Filler:
    """A writer of an access's elements into an array over its domain.

    Args:
        operand: the operand; a constant is an access without rows.
        sizes: extents of the domain.

    Attributes:
        boxes: the boxes of the access's range, None where they are too many.
        covers: whether the access is known to be in range on the whole domain.
    """

    def __init__(self, operand: Operand, sizes: Sizes) -> None:
        self._operand = operand
        self._sizes = sizes
        self.boxes = find_boxes(operand.rows, sizes)
        self._value = make_constant(operand.dtype, operand.value)
        self._turned: dict[tuple[int, ...], list[Turned | None]] = {}
        self.covers = self.boxes is not None and prod(sizes) == sum(
            prod(box.shape) for box in self.boxes
        )

    @property
    def is_short(self) -> bool:
        """Whether a few calls of machine code fill an array."""
        if self.boxes is None:
            return False
        elements, copies = prod(self._sizes), 1 + sum(map(_count_copies, self.boxes))
        return elements <= SHORT_ELEMENTS and copies <= _MOST_COPIES

    def list_calls(self, source: Place, out: Layout, memory: Memory) -> list[Call]:
        """Return the calls that do what `fill` does, given where the tensors will be."""
        calls = [] if self.covers else list_fills(self._value, out, memory)
        return [*calls, *self.list_overlay_calls(source, out, memory)]

    def list_overlay_calls(self, source: Place, out: Layout, memory: Memory) -> list[Call]:
        """Return the calls that do what `overlay` does, given where the tensors will be."""
        assert self.boxes is not None
        calls = []
        for region, shape, strided in self.boxes:
            first = out.skip([part.start for part in region])
            steps = tuple(s * part.step for s, part in zip(out.strides, region, strict=True))
            target = Layout(first, out.width, shape, steps)
            calls += list_copies(lay_out(source, out.width, shape, strided), target, memory)
        return calls

    def fill(self, out: Array, flat: Array) -> None:
        """Write all elements, the fill value where the access is out of range."""
        if not self.covers:
            out[...] = self._value
        self.overlay(out, flat)

    def overlay(self, out: Array, flat: Array) -> None:
        """Write the elements that are in range, and leave the others alone."""
        if self.boxes is None:
            copy_in_range(out, flat.reshape(-1), self._operand.rows)
            return
        if out.strides not in self._turned:
            self._turned[out.strides] = [_find_turned(box, out) for box in self.boxes]
        for (region, shape, strided), turned in zip(
            self.boxes, self._turned[out.strides], strict=True
        ):
            if turned is None:
                out[region] = view(flat, shape, strided)
            else:
                turned.run(out[region], view(flat, shape, strided))


def _find_turned(box: Box, out: Array) -> Turned | None:
    """Return the plan of a box's copy into an array, square by square, if that is worth it."""
    steps = tuple(step // out.itemsize for step in out[box.region].strides)
    return find_turned(box.shape, out.itemsize, (steps, box.strided.strides))


def _count_copies(box: Box) -> int:
    return count_copies(box.shape, [row_major(box.shape), box.strided.strides])
