"""Folds of rows that lie in several segments: lanes along the segments, and then the lanes."""

import ctypes
from collections.abc import Callable
from functools import cache

from llvmlite import ir

from offchain.backends.cpu.kernels.fused.elements import Elements
from offchain.native import native, vectors
from offchain.native.vectors import LANES, WORD
from offchain.planning.segments import SegmentFold

_NAME = "fold"


class Kernel:
    """A fold's machine code.

    Attributes:
        scratch_bytes: how much memory of its own each call needs.
        address: address of the function behind `run`.
    """

    def __init__(self, fold: SegmentFold) -> None:
        self.scratch_bytes = fold.lanes * fold.dtype.width
        self._run = native.load(_Writer(fold).module, _NAME, *[ctypes.c_int64] * 5)
        self.address = native.get_entry_address(self._run)

    def run(self, source: int, target: int, scratch: int, first: int, stop: int) -> None:
        """Fold the rows from `first` to `stop`, at least one; the rest are addresses."""
        self._run(source, target, scratch, first, stop)


@cache
def compile_fold(fold: SegmentFold) -> Kernel:
    """Return the kernel of a fold; equal folds share it."""
    return Kernel(fold)


class _Writer:
    """The writer of a fold's function (source, target, scratch, first, stop)."""

    def __init__(self, fold: SegmentFold) -> None:
        self.module = ir.Module()
        self._fold = fold
        self._width = min(LANES, fold.lanes)
        signature = ir.FunctionType(ir.VoidType(), [WORD] * 5)
        function = ir.Function(self.module, signature, _NAME)
        self._builder = builder = ir.IRBuilder(function.append_basic_block())
        self._elements = elements = Elements(builder, fold.dtype)
        source, target, self._scratch, first, stop = function.args

        def fold_row(index: ir.Value) -> None:
            row = builder.add(first, index)
            start = elements.skip(source, row, fold.row_step)
            self._repeat(fold.lanes // self._width, self._start_lanes)
            self._repeat(fold.segments, lambda segment: self._fold_segment(start, segment))
            elements.store(self._fold_lanes(), elements.skip(target, row))

        self._repeat(builder.sub(stop, first), fold_row)
        builder.ret_void()

    def _repeat(self, count: ir.Value | int, body: Callable[[ir.Value], None]) -> None:
        def step(index: ir.Value, _: object) -> list[ir.Value]:
            body(index)
            return []

        number = WORD(count) if isinstance(count, int) else count
        vectors.repeat(self._builder, number, [], step)

    def _start_lanes(self, part: ir.Value) -> None:
        place = self._elements.skip(self._scratch, part, self._width)
        self._elements.store(self._elements.constant(self._fold.init, self._width), place)

    def _fold_segment(self, row: ir.Value, segment: ir.Value) -> None:
        """Fold whole vectors of columns, the last columns, and the fill of the lanes beyond."""
        builder, elements = self._builder, self._elements
        fold, width = self._fold, self._width
        start = elements.skip(row, segment, fold.segment_step)
        count, rest = divmod(fold.columns, width)

        def fold_vector(index: ir.Value) -> None:
            column = builder.mul(index, WORD(width))
            found = elements.load(elements.skip(start, column), width)
            self._fold_into(builder.urem(column, WORD(fold.lanes)), found)

        self._repeat(count, fold_vector)
        lane = count * width % fold.lanes
        fill = elements.constant(fold.fill, width)
        if rest:
            last = elements.load(start, width, fold.columns - width)
            inside = [width - rest + i if i < rest else width + i for i in range(width)]
            self._fold_into(WORD(lane), vectors.shuffle(builder, last, fill, inside))
            lane += width
        if fold.columns % fold.lanes and lane < fold.lanes:
            self._repeat(
                (fold.lanes - lane) // width,
                lambda i: self._fold_into(
                    builder.add(WORD(lane), builder.mul(i, WORD(width))), fill
                ),
            )

    def _fold_into(self, lane: ir.Value, operand: ir.Value) -> None:
        elements = self._elements
        place = elements.skip(self._scratch, lane)
        before = elements.load(place, self._width)
        elements.store(elements.combine(self._fold.function, before, operand), place)

    def _fold_lanes(self) -> ir.Value:
        elements, fold = self._elements, self._fold

        def fold_lane(lane: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            operand = elements.load(elements.skip(self._scratch, lane), 1)
            return [elements.combine(fold.outer_function, before[0], operand)]

        start = elements.constant(fold.outer_init, 1)
        (result,) = vectors.repeat(self._builder, WORD(fold.lanes), [start], fold_lane)
        return result
