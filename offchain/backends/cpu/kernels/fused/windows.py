"""Window folds: of a few elements around each result, many neighbouring results at a time.

Where a row of the operand is outside of the tensor, a row of fill values is read in its place. In
columns, that may happen at both ends of a row only, where results are computed one by one.
"""

from collections.abc import Sequence
from functools import cache

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cpu.kernels.fused.accumulators import Accumulator
from moot.offchain.native import emit, native, vectors
from moot.offchain.native.vectors import INDEX, LANES, WORD
from moot.offchain.planning.windows import POSITIONS, Bound, WindowFold

_NAME = "fold"


class Kernel:
    """A window fold's machine code.

    Attributes:
        address: the address of a function of five words: the addresses of the operand, of a row of
            fill values as long as all windows' first elements span, and of the results; the first
            row, and the row behind the last one.
    """

    def __init__(self, fold: WindowFold) -> None:
        self.address = native.load_address(_Writer(fold).module, _NAME)


@cache
def compile_fold(fold: WindowFold) -> Kernel:
    """Return the kernel of a fold; equal folds share it."""
    return Kernel(fold)


class _Writer:
    """The writer of a fold's function (source, outside, target, first, stop)."""

    def __init__(self, fold: WindowFold) -> None:
        self.module = ir.Module()
        self._fold = fold
        self._result = DType.INT64 if fold.function in POSITIONS else fold.dtype
        signature = ir.FunctionType(ir.VoidType(), [WORD] * 5)
        function = ir.Function(self.module, signature, _NAME)
        self._builder = builder = ir.IRBuilder(function.append_basic_block())
        self._source, self._outside, self._target, first, stop = function.args

        def write(number: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            self._write_row(builder.add(first, number))
            return []

        vectors.repeat(builder, builder.sub(stop, first), [], write)
        builder.ret_void()

    def _write_row(self, row: ir.Value) -> None:
        builder, fold = self._builder, self._fold
        indices, rest = [], row
        for size in reversed(fold.rows[1:]):
            indices.append(builder.urem(rest, WORD(size)))
            rest = builder.udiv(rest, WORD(size))
        indices = [rest, *reversed(indices)] if fold.rows else []
        start = self._sum(fold.offset, fold.row_steps, indices)
        vertical = [(b, self._sum(b.offset, b.rows, indices)) for b in fold.bounds if not b.column]
        places = []
        for number, shift in enumerate(fold.shifts):
            place = self._skip(self._source, builder.add(start, WORD(shift)))
            for bound, value in vertical:
                inside = self._is_inside(bound, value, number)
                place = builder.select(inside, place, self._outside)
            places.append(place)
        line = self._skip(self._target, builder.mul(row, WORD(fold.columns)), self._result)
        first, stop = fold.inner
        self._write_ends(places, line, 0, first)
        self._write_inner(places, line, first, stop)
        self._write_ends(places, line, stop, fold.columns)

    def _sum(self, offset: int, steps: Sequence[int], indices: Sequence[ir.Value]) -> ir.Value:
        builder, total = self._builder, WORD(offset)
        for step, index in zip(steps, indices, strict=True):
            if step:
                total = builder.add(total, builder.mul(index, WORD(step)))
        return total

    def _skip(self, place: ir.Value, number: ir.Value, dtype: DType | None = None) -> ir.Value:
        width = (dtype or self._fold.dtype).width
        return self._builder.add(place, self._builder.mul(number, WORD(width)))

    def _is_inside(self, bound: Bound, value: ir.Value, number: int) -> ir.Value:
        shifted = self._builder.add(value, WORD(bound.shifts[number]))
        return self._builder.icmp_unsigned("<", shifted, WORD(bound.size))

    def _write_ends(
        self, places: Sequence[ir.Value], line: ir.Value, first: int, stop: int
    ) -> None:
        """Write columns one by one, of whose windows some elements are outside."""
        if first == stop:
            return
        builder, fold = self._builder, self._fold

        def write(number: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            column = builder.add(WORD(first), number)
            ahead = builder.mul(column, WORD(fold.column_step))
            operands = []
            for index, place in enumerate(places):
                here = self._skip(place, ahead)
                for bound in (b for b in fold.bounds if b.column):
                    value = builder.add(WORD(bound.offset), builder.mul(column, WORD(bound.column)))
                    inside = self._is_inside(bound, value, index)
                    here = builder.select(inside, here, self._outside)
                operands.append(self._load(here, 1))
            self._store(self._combine(operands), self._skip(line, column, self._result))
            return []

        vectors.repeat(builder, WORD(stop - first), [], write)

    def _write_inner(
        self, places: Sequence[ir.Value], line: ir.Value, first: int, stop: int
    ) -> None:
        """Write vectors of columns; the last overlaps the one before, and repeats its work."""
        if first == stop:
            return
        builder, step = self._builder, self._fold.column_step
        lanes = min(LANES, 1 << (stop - first).bit_length() - 1)

        def write(number: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            column = builder.add(WORD(first), builder.mul(number, WORD(lanes)))
            last = WORD(stop - lanes)
            column = builder.select(builder.icmp_unsigned("<", last, column), last, column)
            ahead = builder.mul(column, WORD(step))
            operands = [self._load(self._skip(place, ahead), lanes) for place in places]
            self._store(self._combine(operands), self._skip(line, column, self._result))
            return []

        vectors.repeat(builder, WORD(-(-(stop - first) // lanes)), [], write)

    def _load(self, place: ir.Value, lanes: int) -> ir.Value:
        """Load elements that lie one step of the columns apart, and touch nothing behind them."""
        builder, dtype, step = self._builder, self._fold.dtype, self._fold.column_step
        kind = ir.VectorType(emit.STORED[dtype], lanes)
        if step == 1 or lanes == 1:
            value = vectors.load(builder, kind, place)
        elif step == 2:
            low = vectors.load(builder, kind, place)
            high = vectors.load(builder, kind, place, (lanes - 1) * dtype.width)
            half = lanes // 2
            chosen = [2 * i if i < half else 2 * i + 1 for i in range(lanes)]
            value = vectors.shuffle(builder, low, high, chosen)
        else:
            value = ir.Constant(kind, ir.Undefined)
            for lane in range(lanes):
                one = vectors.load(builder, kind.element, place, lane * step * dtype.width)
                value = builder.insert_element(value, one, INDEX(lane))
        return emit.from_stored(builder, dtype, value)

    def _store(self, value: ir.Value, place: ir.Value) -> None:
        vectors.store(self._builder, emit.to_stored(self._builder, self._result, value), place)

    def _combine(self, operands: Sequence[ir.Value]) -> ir.Value:
        builder, fold = self._builder, self._fold
        if fold.function in POSITIONS:
            return self._find_best(operands)
        accumulator = Accumulator(fold.function, fold.dtype)
        total = accumulator.start(builder, fold.init, operands[0].type.count)
        for operand in operands:
            total = accumulator.step(builder, total, accumulator.enter(builder, operand))
        return accumulator.leave(builder, total)

    def _find_best(self, operands: Sequence[ir.Value]) -> ir.Value:
        """The position of the first best operand, or of the first NaN."""
        builder, dtype = self._builder, self._fold.dtype
        best, *others = operands
        lanes, types = best.type.count, (dtype, dtype)
        place = emit.constant(DType.INT32, 0, lanes)
        for number, value in enumerate(others, start=1):
            compare = POSITIONS[self._fold.function]
            is_better = emit.emit(builder, compare, types, DType.BOOL, (value, best))
            if dtype in emit.FLOATS:
                is_nan = builder.fcmp_unordered("uno", value, value)
                was_number = builder.fcmp_ordered("ord", best, best)
                is_better = builder.or_(is_better, builder.and_(is_nan, was_number))
            here = emit.constant(DType.INT32, number, lanes)
            place = builder.select(is_better, here, place)
            best = builder.select(is_better, value, best)
        return builder.sext(place, ir.VectorType(WORD, lanes))
