"""Fragments of factors: what a warp multiplies, brought from shared memory to its cells."""

from collections.abc import Callable
from itertools import product

from llvmlite import ir

from moot.offchain.backends.cuda.kernel import Context, word
from moot.offchain.backends.cuda.tensor.tiles import COLUMNS, DEPTH, ROWS, VECTOR

CELLS = (4, 2, 4)
"""The cells of an instruction's first factor, of its second one, and of its sum."""

Locate = Callable[[ir.Value, ir.Value], ir.Value]
"""(the number of a line, the number of an element of it) -> where it is in shared memory."""

Number = Callable[[int, int], int]
"""(the number of an instruction, that of its steps) -> the first cell of its factor."""


def fetch(
    context: Context,
    axis: int,
    counts: tuple[int, int],
    first: ir.Value,
    locate: Locate,
    number: Number,
    *,
    is_turned: bool,
) -> None:
    """Take up a warp's rows or columns: four matrices of 8 by 8 at a time.

    Of the first factor these are the quarters of an instruction's rows, of the second the halves
    of the columns of two instructions, or of one where the last has no other.

    Args:
        context: where to write.
        axis: which factor.
        counts: how many instructions are side by side, and how many have the following steps.
        first: the warp's first row or column.
        locate: where elements are; lines are rows, or steps if the factor is turned.
        number: the cells.
        is_turned: whether it is.
    """
    own, deep = counts
    for depth, start in product(range(deep), range(0, own, 1 + axis)):
        count = 4 if axis == 0 or start + 1 < own else 2

        def find(
            matrix: ir.Value, row: ir.Value, depth: int = depth, start: int = start
        ) -> ir.Value:
            builder = context.builder
            low, high = (f(matrix, word(2)) for f in (builder.urem, builder.udiv))
            down, along = (low, high) if axis == 0 else (high, low)
            line = builder.add(first, word(start * (ROWS, COLUMNS)[axis]))
            line = builder.add(line, builder.mul(down, word(COLUMNS)))
            step = builder.add(builder.mul(along, word(VECTOR)), word(depth * DEPTH))
            if is_turned:
                return locate(builder.add(step, row), line)
            return locate(builder.add(line, row), step)

        found = context.load_matrices(count, find, is_turned=is_turned)
        cells = CELLS[axis]
        for place, value in enumerate(found):
            context.set_cell(number(start + place // cells, depth) + place % cells, value)
