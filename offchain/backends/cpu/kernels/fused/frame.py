"""The frame that the passes of a fused kernel share: addresses, elements in memory, loops."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import LANES, WORD
from moot.offchain.planning.region import (
    Fold,
    Gathered,
    Lanes,
    Load,
    Plan,
    Region,
    is_full,
    is_row,
)

_ALIGNMENT = 64
FIRST_SEGMENT = WORD(0)


class Frame:
    """The frame of a kernel while it is written.

    Args:
        region: the values that the kernel computes.
        builder: where the code is written.
        pointers: the address of the addresses of the region's buffers.
        scratch: the address of its scratch memory.
        columns: how many columns are computed, if each call of the kernel says that.

    Attributes:
        columns: how many columns are computed where a row is whole.
        width: lanes of the vectors along a row.
        height: lanes of the vectors across rows.
        scratch_bytes: size of the scratch memory.
    """

    def __init__(
        self,
        region: Region,
        builder: ir.IRBuilder,
        pointers: ir.Value,
        scratch: ir.Value,
        columns: ir.Value | None = None,
    ) -> None:
        self.region = region
        self.columns = columns if columns is not None and region.is_cut else WORD(region.columns)
        self.builder = builder
        self.plan = Plan(region)
        self.outputs = dict(region.stores)
        self._pitches = dict(region.pitches)
        values = region.values
        lanes = [v.lanes for v in values if isinstance(v, Lanes)]
        self.width = _power_below(min([LANES, region.columns, *lanes]))
        folded = [self.length(v.argument) for v in values if isinstance(v, Fold)]
        self.height = _power_below(min([LANES, region.block, *folded]))
        self.scratch_bytes = 0
        self._scratch = scratch
        self._places: dict[int, int] = {}
        self._allocate()
        loads = [v.source if isinstance(v, Gathered) else v for v in values]
        buffers = {v.buffer for v in loads if isinstance(v, Load)} | set(self.outputs.values())
        buffers |= set() if region.lead is None else {region.lead.counts, region.lead.constant}
        self._buffers = {i: vectors.load(builder, WORD, pointers, 8 * i) for i in buffers}

    def get_buffer(self, buffer: int) -> ir.Value:
        """The address of a buffer."""
        return self._buffers[buffer]

    @property
    def _block_rows(self) -> int:
        """The rows of a block for which there is scratch memory: whole vectors of them."""
        return -(-self.region.block // self.height) * self.height

    def _allocate(self) -> None:
        for index in sorted(self.plan.scratch):
            self._places[index] = self.scratch_bytes
            value = self.region.values[index]
            size = self._block_rows * self.length(index) * value.dtype.width
            size *= self.region.segments if is_full(value) else 1
            self.scratch_bytes += -(-size // _ALIGNMENT) * _ALIGNMENT

    def length(self, index: int) -> int:
        """How many elements of a value there are in each row, or each segment of one."""
        value = self.region.values[index]
        if isinstance(value, Lanes):
            return value.lanes
        return 1 if is_row(value) else self.region.columns

    def locate_scratch(
        self, index: int, row: ir.Value, segment: ir.Value | None = None
    ) -> ir.Value:
        """The address of a row of a value in scratch; rows count from the start of the block."""
        start = self.builder.add(self._scratch, WORD(self._places[index]))
        return self._skip(start, index, row, segment, self._block_rows)

    def locate_output(self, index: int, row: ir.Value, segment: ir.Value | None = None) -> ir.Value:
        """The address of a row of a value that is stored; rows count from the first of all."""
        buffer, rows = self.outputs[index], prod(self.region.rows)
        pitch = self._pitches.get(buffer)
        return self._skip(self._buffers[buffer], index, row, segment, rows, pitch)

    def _skip(
        self,
        start: ir.Value,
        index: int,
        row: ir.Value,
        segment: ir.Value | None,
        rows: int,
        pitch: int | None = None,
    ) -> ir.Value:
        """The address of a row in a segment, None for what has no segments, of so many rows."""
        row_bytes = (pitch or self.length(index)) * self.region.values[index].dtype.width
        if segment is not None:
            row = self.builder.add(row, self.builder.mul(segment, WORD(rows)))
        return self.builder.add(start, self.builder.mul(row, WORD(row_bytes)))

    def split(self, row: ir.Value) -> list[ir.Value]:
        """The indices along the rows' axes of a row."""
        indices = []
        for size in reversed(self.region.rows[1:]):
            indices.append(self.builder.urem(row, WORD(size)))
            row = self.builder.udiv(row, WORD(size))
        return [row, *reversed(indices)] if self.region.rows else []

    def locate(
        self, load: Load, indices: Sequence[ir.Value], segment: ir.Value = FIRST_SEGMENT
    ) -> ir.Value:
        """The address of the first element of an operand's row in a segment."""
        address = self._buffers[load.buffer]
        places = [*zip(indices, load.row_strides, strict=True), (segment, load.segment_stride)]
        for index, stride in places:
            if stride:
                step = self.builder.mul(index, WORD(stride * load.dtype.width))
                address = self.builder.add(address, step)
        return self.builder.add(address, WORD(load.offset * load.dtype.width))

    def read(self, dtype: DType, address: ir.Value, lanes: int) -> ir.Value:
        """The elements that lie side by side from an address on."""
        kind = ir.VectorType(emit.STORED[dtype], lanes)
        return emit.from_stored(self.builder, dtype, vectors.load(self.builder, kind, address))

    def read_strided(self, dtype: DType, address: ir.Value, stride: int, lanes: int) -> ir.Value:
        """The elements that lie `stride` elements apart."""
        element = emit.STORED[dtype]
        result = ir.Constant(ir.VectorType(element, lanes), ir.Undefined)
        for lane in range(lanes):
            value = vectors.load(self.builder, element, address, lane * stride * dtype.width)
            result = self.builder.insert_element(result, value, vectors.INDEX(lane))
        return emit.from_stored(self.builder, dtype, result)

    def read_same(self, dtype: DType, address: ir.Value, lanes: int) -> ir.Value:
        """The element at an address, in every lane."""
        value = vectors.load(self.builder, emit.STORED[dtype], address)
        return emit.from_stored(self.builder, dtype, vectors.splat(self.builder, value, lanes))

    def write(self, dtype: DType, value: ir.Value, address: ir.Value) -> None:
        """Store elements side by side."""
        vectors.store(self.builder, emit.to_stored(self.builder, dtype, value), address)

    def stream(self, dtype: DType, value: ir.Value, address: ir.Value) -> None:
        """Store elements side by side, past the caches."""
        vectors.stream(self.builder, emit.to_stored(self.builder, dtype, value), address)

    def copy(self, dtype: DType, source: ir.Value, target: ir.Value, count: ir.Value) -> None:
        """Copy elements that lie side by side, which are stored as they should be."""
        element = emit.STORED[dtype]
        with self.counting(WORD(0), count, WORD(dtype.width)) as place:
            value = vectors.load(self.builder, element, self.builder.add(source, place))
            vectors.store(self.builder, value, self.builder.add(target, place))

    @contextmanager
    def counting(self, first: ir.Value, stop: ir.Value, step: ir.Value) -> Iterator[ir.Value]:
        """Repeat what is written inside for first, first + step, ... below stop."""
        builder = self.builder
        before = builder.block
        head, body, after = (builder.append_basic_block(n) for n in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(WORD)
        index.add_incoming(first, before)
        builder.cbranch(builder.icmp_signed("<", index, stop), body, after)
        builder.position_at_end(body)
        yield index
        index.add_incoming(builder.add(index, step), builder.block)
        builder.branch(head)
        builder.position_at_end(after)


def _power_below(limit: int) -> int:
    """The largest power of two that is at most `limit`."""
    return 1 << limit.bit_length() - 1
