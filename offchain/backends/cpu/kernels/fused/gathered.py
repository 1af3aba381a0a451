"""The code of gathers in fused kernels: elements of one row, at addresses that indices name."""

from collections.abc import Mapping, Sequence
from functools import reduce

from llvmlite import ir

from moot.offchain.backends.cpu.kernels.fused.frame import Frame
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import INDEX, WORD
from moot.offchain.planning.region import Gathered

_PERMUTED_BYTES = 4
"""Bytes of an element that can be put in any order."""


class GatheredRow:
    """A gather on one row: what the whole row has in common, and then vector by vector.

    An index that is not inside reads at 0, so that every address is one of the tensor's, and gives
    the fill.

    Args:
        frame: the kernel's frame.
        value: the gather.
        places: the indices along the rows' axes of the row.
        same: the values that are the same for the whole row, as vectors.
    """

    def __init__(
        self,
        frame: Frame,
        value: Gathered,
        places: Sequence[ir.Value],
        same: Mapping[int, ir.Value],
    ) -> None:
        self._frame, self._builder, self._value = frame, frame.builder, value
        self._start = frame.locate(value.source, places)
        self._inside: list[ir.Value] = []
        self._moving: list[tuple[int, int, int]] = []
        for index, size, step in zip(value.indices, value.sizes, value.steps, strict=True):
            if index not in same:
                self._moving.append((index, size, step))
                continue
            first = self._builder.extract_element(same[index], INDEX(0))
            found, inside = self._bring_inside(first, WORD(size), WORD(0))
            self._inside.append(inside)
            offset = self._builder.mul(found, WORD(step * value.dtype.width))
            self._start = self._builder.add(self._start, offset)

    def gather(self, column: ir.Value, found: Mapping[int, ir.Value], lanes: int) -> ir.Value:
        """Return the elements of neighbouring columns, given the vectors of the indices."""
        builder, value = self._builder, self._value
        stride = value.source.column_stride or 0
        step = WORD(stride * value.dtype.width)
        start = builder.add(self._start, builder.mul(column, step))
        masks = [vectors.splat(builder, inside, lanes) for inside in self._inside]
        moved = []
        for index, size, _ in self._moving:
            zeros, sizes = (ir.VectorType(WORD, lanes)([n] * lanes) for n in (0, size))
            elements, inside = self._bring_inside(found[index], sizes, zeros)
            moved.append(elements)
            masks.append(inside)
        result = self._load(start, stride, moved, lanes)
        fill = emit.constant(value.dtype, value.fill, lanes)
        return builder.select(reduce(builder.and_, masks), result, fill)

    def _bring_inside(
        self, index: ir.Value, size: ir.Value, zero: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        """Return an index, or 0 where it is not below a size, and whether it is."""
        builder = self._builder
        index = index if index.type == size.type else builder.sext(index, size.type)
        inside = builder.icmp_unsigned("<", index, size)
        return builder.select(inside, index, zero), inside

    def _load(
        self, start: ir.Value, stride: int, moved: Sequence[ir.Value], lanes: int
    ) -> ir.Value:
        """Return what is so far from an address, along the columns and by indices."""
        dtype, frame = self._value.dtype, self._frame
        if not moved and stride <= 1:
            read = frame.read if stride else frame.read_same
            return read(dtype, start, lanes)
        if not moved:
            return frame.read_strided(dtype, start, stride, lanes)
        is_permuted = dtype.width == _PERMUTED_BYTES and lanes in vectors.PERMUTABLE
        is_line = len(moved) == 1 and self._moving[0][2] == 1 and stride == 0
        if is_permuted and is_line:
            stored = self._load_line(start, moved[0], lanes)
        else:
            stored = self._load_apart(start, stride, moved, lanes)
        return emit.from_stored(self._builder, dtype, stored)

    def _load_apart(
        self, start: ir.Value, stride: int, moved: Sequence[ir.Value], lanes: int
    ) -> ir.Value:
        """Load elements one by one."""
        builder, width = self._builder, self._value.dtype.width
        kind = ir.VectorType(WORD, lanes)
        places = vectors.splat(builder, start, lanes)
        if stride:
            along = ir.Constant(kind, [lane * stride * width for lane in range(lanes)])
            places = builder.add(places, along)
        for (_, _, step), elements in zip(self._moving, moved, strict=True):
            steps = ir.Constant(kind, [step * width] * lanes)
            places = builder.add(places, builder.mul(elements, steps))
        undefined = ir.Constant(self._kind(lanes), ir.Undefined)
        return vectors.gather(builder, places, None, undefined)

    def _load_line(self, start: ir.Value, elements: ir.Value, lanes: int) -> ir.Value:
        """Load elements of a line: as one vector and in order, if they are so close together."""
        builder, width = self._builder, self._value.dtype.width
        ends = [builder.extract_element(elements, INDEX(lane)) for lane in (0, lanes - 1)]
        is_rising = builder.icmp_unsigned("<", *ends)
        first = builder.select(is_rising, *ends)
        near = builder.sub(elements, vectors.splat(builder, first, lanes))
        limit = ir.Constant(near.type, [lanes] * lanes)
        bits = builder.bitcast(builder.icmp_unsigned("<", near, limit), ir.IntType(lanes))
        is_close = builder.icmp_unsigned("==", bits, bits.type(-1))
        with builder.if_else(is_close, likely=True) as (close, apart):
            with close:
                place = builder.add(start, builder.mul(first, WORD(width)))
                left = builder.sub(WORD(self._moving[0][1]), first)
                line = vectors.load_first(builder, self._kind(lanes), place, left)
                order = builder.trunc(near, ir.VectorType(INDEX, lanes))
                closely = vectors.permute(builder, line, order)
                close_block = builder.block
            with apart:
                singly = self._load_apart(start, 0, [elements], lanes)
                apart_block = builder.block
        result = builder.phi(closely.type)
        result.add_incoming(closely, close_block)
        result.add_incoming(singly, apart_block)
        return result

    def _kind(self, lanes: int) -> ir.VectorType:
        return ir.VectorType(emit.STORED[self._value.dtype], lanes)
