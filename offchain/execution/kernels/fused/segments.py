"""Folds of rows that lie in several segments: lanes along the segments, and then the lanes."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from llvmlite import ir

from offchain.arithmetic.functions import DType, Function
from offchain.execution.kernels import native, vectors
from offchain.execution.kernels.fused import emit
from offchain.execution.kernels.vectors import LANES, WORD

_NAME = "fold"


@dataclass(frozen=True, slots=True)
class SegmentFold:
    """The fold of every row: lane l folds columns l, l + lanes, ... of one segment after another.

    Attributes:
        dtype: the type of the elements.
        function: what folds the columns.
        init: the bits that each lane starts from.
        fill: the bits that a lane folds at the last step of a segment if there is no column left.
        segments: the number of segments of each row.
        segment_step: how far apart they are, in elements.
        row_step: how far apart the rows are.
        columns: the columns of a segment, which lie side by side.
        lanes: the number of lanes, a power of two, at most `columns`.
        outer_function: what folds the lanes.
        outer_init: the bits that the fold of the lanes starts from.
    """

    dtype: DType
    function: Function
    init: int
    fill: int
    segments: int
    segment_step: int
    row_step: int
    columns: int
    lanes: int
    outer_function: Function
    outer_init: int


class Kernel:
    """A fold's machine code.

    Attributes:
        scratch_bytes: how much memory of its own each call needs.
    """

    def __init__(self, fold: SegmentFold) -> None:
        self.scratch_bytes = fold.lanes * fold.dtype.width
        self._run = native.load(_Writer(fold).module, _NAME, *[ctypes.c_int64] * 5)

    def run(self, source: int, target: int, scratch: int, first: int, stop: int) -> None:
        """Fold the rows from `first` to `stop`, at least one; the rest are addresses."""
        self._run(source, target, scratch, first, stop)


@cache
def compile_fold(fold: SegmentFold) -> Kernel:
    """Return the kernel of a fold; equal folds share it."""
    return Kernel(fold)


class _Writer:
    """Writes the function (source, target, scratch, first, stop) of a fold."""

    def __init__(self, fold: SegmentFold) -> None:
        self.module = ir.Module()
        self._fold = fold
        self._width = min(LANES, fold.lanes)
        signature = ir.FunctionType(ir.VoidType(), [WORD] * 5)
        function = ir.Function(self.module, signature, _NAME)
        self._builder = builder = ir.IRBuilder(function.append_basic_block())
        source, target, self._scratch, first, stop = function.args

        def fold_row(index: ir.Value) -> None:
            row = builder.add(first, index)
            start = builder.add(source, self._bytes(row, fold.row_step))
            self._repeat(fold.lanes // self._width, self._start_lanes)
            self._repeat(fold.segments, lambda segment: self._fold_segment(start, segment))
            self._store(self._fold_lanes(), builder.add(target, self._bytes(row)))

        self._repeat(builder.sub(stop, first), fold_row)
        builder.ret_void()

    def _bytes(self, number: ir.Value, elements: int = 1) -> ir.Value:
        """The bytes of so many times some elements."""
        return self._builder.mul(number, WORD(elements * self._fold.dtype.width))

    def _repeat(self, count: ir.Value | int, body: Callable[[ir.Value], None]) -> None:
        def step(index: ir.Value, _: object) -> list[ir.Value]:
            body(index)
            return []

        number = WORD(count) if isinstance(count, int) else count
        vectors.repeat(self._builder, number, [], step)

    def _start_lanes(self, part: ir.Value) -> None:
        place = self._builder.add(self._scratch, self._bytes(part, self._width))
        self._store(emit.constant(self._fold.dtype, self._fold.init, self._width), place)

    def _fold_segment(self, row: ir.Value, segment: ir.Value) -> None:
        """Fold whole vectors of columns, the last columns, and what fills the lanes beyond."""
        builder, fold, width = self._builder, self._fold, self._width
        start = builder.add(row, self._bytes(segment, fold.segment_step))
        count, rest = divmod(fold.columns, width)

        def fold_vector(index: ir.Value) -> None:
            column = builder.mul(index, WORD(width))
            found = self._load(builder.add(start, self._bytes(column)), width)
            self._fold_into(builder.urem(column, WORD(fold.lanes)), found)

        self._repeat(count, fold_vector)
        lane = count * width % fold.lanes
        fill = emit.constant(fold.dtype, fold.fill, width)
        if rest:
            last = builder.add(start, WORD((fold.columns - width) * fold.dtype.width))
            inside = [width - rest + i if i < rest else width + i for i in range(width)]
            found = vectors.shuffle(builder, self._load(last, width), fill, inside)
            self._fold_into(WORD(lane), found)
            lane += width
        if fold.columns % fold.lanes and lane < fold.lanes:
            self._repeat(
                (fold.lanes - lane) // width,
                lambda i: self._fold_into(
                    builder.add(WORD(lane), builder.mul(i, WORD(width))), fill
                ),
            )

    def _fold_into(self, lane: ir.Value, operand: ir.Value) -> None:
        place = self._builder.add(self._scratch, self._bytes(lane))
        before = self._load(place, self._width)
        self._store(self._combine(self._fold.function, before, operand), place)

    def _fold_lanes(self) -> ir.Value:
        def fold_lane(lane: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            place = self._builder.add(self._scratch, self._bytes(lane))
            return [self._combine(self._fold.outer_function, before[0], self._load(place, 1))]

        start = emit.constant(self._fold.dtype, self._fold.outer_init, 1)
        lanes = WORD(self._fold.lanes)
        (result,) = vectors.repeat(self._builder, lanes, [start], fold_lane)
        return result

    def _combine(self, function: Function, x: ir.Value, y: ir.Value) -> ir.Value:
        dtype = self._fold.dtype
        return emit.emit(self._builder, function, (dtype, dtype), dtype, (x, y))

    def _load(self, place: ir.Value, lanes: int) -> ir.Value:
        dtype = self._fold.dtype
        kind = ir.VectorType(emit.STORED[dtype], lanes)
        return emit.from_stored(self._builder, dtype, vectors.load(self._builder, kind, place))

    def _store(self, value: ir.Value, place: ir.Value) -> None:
        stored = emit.to_stored(self._builder, self._fold.dtype, value)
        vectors.store(self._builder, stored, place)
