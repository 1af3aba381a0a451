"""Vertical folds: of the columns of matrices whose rows are dense, many columns at a time."""

from collections.abc import Sequence
from functools import cache

from llvmlite import ir

from moot.offchain.backends.cpu.kernels.fused.elements import Elements
from moot.offchain.native import native, vectors
from moot.offchain.native.vectors import LANES, WORD
from moot.offchain.planning.vertical import VerticalFold

_VECTORS = 8
"""Vectors of columns that are folded together."""

_NAME = "fold"
_WORD_BYTES = 8


class Kernel:
    """A vertical fold's machine code.

    Attributes:
        strip: columns that are folded together; a part of the columns starts at a multiple.
        strips: how many parts a matrix has.
        address: the address of a function of the buffer's address, the results', that of a table
            of where each matrix begins behind the buffer, and the first of all matrices' parts and
            the one behind the last.
    """

    def __init__(self, fold: VerticalFold) -> None:
        writer = _Writer(fold)
        self.strip, self.strips = writer.strip, writer.strips
        self.address = native.load_address(writer.module, _NAME)


@cache
def compile_fold(fold: VerticalFold) -> Kernel:
    """Return the kernel of a fold; equal folds share it."""
    return Kernel(fold)


class _Writer:
    """The writer of a fold's function (source, target, starts, first, stop)."""

    def __init__(self, fold: VerticalFold) -> None:
        self.module = ir.Module()
        self._fold = fold
        self._width = min(LANES, 1 << fold.columns.bit_length() - 1)
        self._vectors = min(_VECTORS, fold.columns // self._width)
        self.strip = self._width * self._vectors
        self.strips = -(-fold.columns // self.strip)
        signature = ir.FunctionType(ir.VoidType(), [WORD] * 5)
        function = ir.Function(self.module, signature, _NAME)
        self._builder = ir.IRBuilder(function.append_basic_block())
        self._elements = Elements(self._builder, fold.dtype)
        self._write_strips(*function.args)

    def _write_strips(
        self,
        source: ir.Value,
        target: ir.Value,
        starts: ir.Value,
        first: ir.Value,
        stop: ir.Value,
    ) -> None:
        """Write the loop over strips; a matrix's last overlaps the one before: it repeats work."""
        builder, elements, fold = self._builder, self._elements, self._fold

        def write(index: ir.Value, _: Sequence[ir.Value]) -> list[ir.Value]:
            number = builder.add(first, index)
            matrix = builder.udiv(number, WORD(self.strips))
            start = builder.mul(builder.urem(number, WORD(self.strips)), WORD(self.strip))
            last = WORD(fold.columns - self.strip)
            column = builder.select(builder.icmp_signed("<", last, start), last, start)
            place = builder.add(starts, builder.mul(matrix, WORD(_WORD_BYTES)))
            begin = vectors.load(builder, WORD, place)
            results = self._write_strip(elements.skip(builder.add(source, begin), column))
            end = elements.skip(elements.skip(target, matrix, fold.columns), column)
            for number, result in enumerate(results):
                elements.store(result, end, number * self._width)
            return []

        vectors.repeat(builder, builder.sub(stop, first), [], write)
        builder.ret_void()

    def _write_strip(self, source: ir.Value) -> list[ir.Value]:
        builder, elements, fold = self._builder, self._elements, self._fold
        if fold.lanes is None:
            return self._fold_rows(source, WORD(fold.rows), 1)
        steps, rest = divmod(fold.rows, fold.lanes)

        def fold_lane(lane: ir.Value, before: Sequence[ir.Value]) -> list[ir.Value]:
            start = elements.skip(source, lane, fold.step)
            has_more = builder.icmp_signed("<", lane, WORD(rest))
            count = builder.add(WORD(steps), builder.zext(has_more, WORD))
            sums = self._fold_rows(start, count, fold.lanes or 1)
            if rest:
                fill = self._constant(fold.fill)
                filled = [elements.combine(fold.function, value, fill) for value in sums]
                sums = [builder.select(has_more, *pair) for pair in zip(sums, filled, strict=True)]
            pairs = zip(before, sums, strict=True)
            return [elements.combine(fold.outer_function, *pair) for pair in pairs]

        starts = [self._constant(fold.outer_init)] * self._vectors
        return vectors.repeat(builder, WORD(fold.lanes), starts, fold_lane)

    def _fold_rows(self, source: ir.Value, count: ir.Value, every: int) -> list[ir.Value]:
        """Fold so many rows, of which each is `every` rows behind the one before."""
        elements, fold, width = self._elements, self._fold, self._width

        def fold_row(index: ir.Value, before: Sequence[ir.Value]) -> list[ir.Value]:
            place = elements.skip(source, index, every * fold.step)
            operands = [elements.load(place, width, i * width) for i in range(self._vectors)]
            pairs = zip(before, operands, strict=True)
            return [elements.combine(fold.function, *pair) for pair in pairs]

        starts = [self._constant(fold.init)] * self._vectors
        return vectors.repeat(self._builder, count, starts, fold_row)

    def _constant(self, bits: int) -> ir.Value:
        return self._elements.constant(bits, self._width)
