"""The machine code of copies whose neighbours in the source are not neighbours in the output.

A copy of a matrix with its axes swapped reads squares whose rows are neighbours in the source,
turns them in registers, and writes rows that are neighbours in the output.
"""

import ctypes
from functools import cache

from llvmlite import ir

from moot.offchain.native import native, vectors
from moot.offchain.native.vectors import VECTOR_BYTES, WORD

_NAME = "turn"

LEAST_SIDE = 4
"""The least rows and columns of a matrix that are worth squares."""

MOST_LANES = 16
"""The most rows of a square; the rows of a block are a multiple of it."""


class Turn:
    """The machine code that copies matrices with their axes swapped.

    Args:
        width: the bytes of an element.
        side: the rows of a square, a power of two.

    Attributes:
        address: address of the function behind `run`, which takes its arguments one by one.
    """

    def __init__(self, width: int, side: int) -> None:
        self._run = native.load(_write(width, side), _NAME, *[ctypes.c_int64] * 10)
        self.address = native.get_entry_address(self._run)

    def run(
        self,
        out: int,
        source: int,
        places: int,
        sizes: tuple[int, int],
        steps: tuple[int, int],
        height: int,
        part: tuple[int, int],
    ) -> None:
        """Copy some blocks of rows; the blocks of a matrix follow those of the one before it.

        Args:
            out: address of the output, whose rows' neighbours are neighbours.
            source: address of the source, whose columns' neighbours are neighbours.
            places: address of where each matrix begins, as bytes in the output and in the source.
            sizes: the rows and the columns of each matrix, at least `side` of each.
            steps: bytes between columns of the output, and between rows of the source.
            height: the rows of a block, a multiple of `side`.
            part: the first block, and the one after the last.
        """
        self._run(out, source, places, *sizes, *steps, height, *part)


def get_turn(width: int, rows: int, columns: int) -> Turn:
    """Return the machine code for matrices of elements of so many bytes."""
    most = min(MOST_LANES, max(LEAST_SIDE, VECTOR_BYTES // width))
    return _make_turn(width, 1 << min(most, rows, columns).bit_length() - 1)


@cache
def _make_turn(width: int, side: int) -> Turn:
    return Turn(width, side)


def _write(width: int, side: int) -> ir.Module:
    signature = ir.FunctionType(ir.VoidType(), [WORD] * 10)
    function = ir.Function(ir.Module(), signature, _NAME)
    builder = ir.IRBuilder(function.append_basic_block())
    out, source, places, rows, columns, out_step, step, height, first, stop = function.args
    kind = ir.VectorType(ir.IntType(8 * width), side)
    blocks = builder.udiv(builder.add(rows, builder.sub(height, WORD(1))), height)

    def skip(start: ir.Value, number: ir.Value, size: ir.Value) -> ir.Value:
        return builder.add(start, builder.mul(number, size))

    def turn_square(here: ir.Value, there: ir.Value, row: ir.Value, column: ir.Value) -> None:
        start = skip(skip(there, row, step), column, WORD(width))
        if width == 4:
            lines = vectors.load_columns(builder, kind, start, step, WORD(side))
        else:
            lines = vectors.transpose(builder, vectors.load_rows(builder, kind, start, step))
        target = skip(skip(here, row, WORD(width)), column, out_step)
        for line, value in enumerate(lines):
            vectors.store(builder, value, skip(target, WORD(line), out_step))

    def count_squares(extent: ir.Value) -> ir.Value:
        return builder.udiv(builder.add(extent, WORD(side - 1)), WORD(side))

    def fit(number: ir.Value, extent: ir.Value) -> ir.Value:
        """Where a square begins; the last one overlaps the one before it."""
        start, last = builder.mul(number, WORD(side)), builder.sub(extent, WORD(side))
        return builder.select(builder.icmp_unsigned("<", start, last), start, last)

    def turn_block(number: ir.Value, _: object) -> list[ir.Value]:
        item = builder.add(first, number)
        matrix, block = builder.udiv(item, blocks), builder.urem(item, blocks)
        place = builder.add(places, builder.mul(matrix, WORD(16)))
        here = builder.add(out, vectors.load(builder, WORD, place))
        there = builder.add(source, vectors.load(builder, WORD, place, 8))
        squares = builder.udiv(height, WORD(side))
        begin = builder.mul(block, squares)
        left = builder.sub(count_squares(rows), begin)
        count = builder.select(builder.icmp_unsigned("<", squares, left), squares, left)

        def turn_columns(column: ir.Value, _: object) -> list[ir.Value]:
            at = fit(column, columns)

            def turn_rows(row: ir.Value, _: object) -> list[ir.Value]:
                turn_square(here, there, fit(builder.add(begin, row), rows), at)
                return []

            vectors.repeat(builder, count, [], turn_rows)
            return []

        vectors.repeat(builder, count_squares(columns), [], turn_columns)
        return []

    vectors.repeat(builder, builder.sub(stop, first), [], turn_block)
    builder.ret_void()
    return function.module
