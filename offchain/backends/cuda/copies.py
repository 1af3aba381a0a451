"""The copies that bring parts of a factor to shared memory: which vectors each thread brings."""

from collections.abc import Callable
from math import prod

from llvmlite import ir

from moot.offchain.backends.cuda.factors import Rows
from moot.offchain.backends.cuda.kernel import Context, Copy, word
from moot.offchain.native import vectors

Place = Callable[[ir.Value, ir.Value], ir.Value]
"""(the number of a line, the number of an element of it) -> where it is in shared memory."""


class Copies:
    """The copies of a part of a factor: some rows at some steps.

    Lines of a part are rows, or if the factor is turned, steps.

    Args:
        rows: where the factor's rows are.
        side: the rows of a part.
        depth: the steps of a part.
        threads: how many bring it.

    Attributes:
        lines: the lines of a part.
        length: the elements of each.
        is_turned: whether lines are steps.
    """

    def __init__(self, rows: Rows, side: int, depth: int, threads: int) -> None:
        self._rows, self._side, self._depth, self._threads = rows, side, depth, threads
        self.lines, self.length = (depth, side) if rows.is_turned else (side, depth)
        self.is_turned = rows.is_turned

    @property
    def count(self) -> int:
        """The copies of a thread."""
        return -(-self.lines * (self.length // self._rows.vector) // self._threads)

    def make(
        self,
        context: Context,
        at: tuple[ir.Value, ir.Value, ir.Value],
        address: ir.Value,
        place: Place,
    ) -> list[Copy]:
        """Return a thread's copies; instead of rows behind the last one, that; of steps, zeros.

        Args:
            context: where to write.
            at: the batch, the first row and the first step.
            address: that of the factor's tensor.
            place: says where elements go.
        """
        return [self._make_one(context, turn, at, address, place) for turn in range(self.count)]

    def _make_one(
        self,
        context: Context,
        turn: int,
        at: tuple[ir.Value, ir.Value, ir.Value],
        address: ir.Value,
        place: Place,
    ) -> Copy:
        builder, rows, (batch, first_row, start) = context.builder, self._rows, at
        line, first = self._assign(context, turn)
        offset = place(line, first)
        row, step = (first, line) if rows.is_turned else (line, first)
        row, step = builder.add(first_row, row), builder.add(start, step)
        if rows.count % self._side:
            last = rows.count - (rows.vector if rows.is_turned else 1)
            row = vectors.minimum(builder, row, word(last))
        is_there, end = None, prod(rows.steps.shape)
        if end % self._depth:
            is_there = builder.icmp_unsigned("<", step, word(end))
            step = builder.select(is_there, step, word(0))
        element = rows.locate(context, batch, row, step)
        return Copy(builder.add(address, builder.mul(element, word(rows.width))), offset, is_there)

    def _assign(self, context: Context, turn: int) -> tuple[ir.Value, ir.Value]:
        """Return the line, and the first element of it, that a thread brings."""
        builder, threads = context.builder, self._threads
        number = builder.add(context.thread, word(turn * threads))
        each = self.length // self._rows.vector
        if (
            turn + 1
        ) * threads > self.lines * each:  # the last vector is brought by several threads
            number = vectors.minimum(builder, number, word(self.lines * each - 1))
        first = builder.mul(builder.urem(number, word(each)), word(self._rows.vector))
        return builder.udiv(number, word(each)), first
