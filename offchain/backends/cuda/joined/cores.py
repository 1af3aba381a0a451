"""Products of bfloat16 between which rows are, by tensor cores: sixteen rows for four warps."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.copies import Copies
from moot.offchain.backends.cuda.joined.form import Area, Joined, Product
from moot.offchain.backends.cuda.joined.multiplying import (
    Multiplying,
    Sum,
    find_element,
    find_part,
)
from moot.offchain.backends.cuda.kernel import WARP, Context, Products, make_instruction, word
from moot.offchain.backends.cuda.tensor.fragments import CELLS, Locate, fetch
from moot.offchain.backends.cuda.tensor.tiles import COLUMNS, DEPTH, ROWS, VECTOR, WIDTH
from moot.offchain.native.vectors import INDEX

PART = 64
"""Columns of the first product, which are steps of the last one, that are multiplied at a time."""

ACROSS = 4
"""Warps that share sixteen rows."""


class ByCores(Product):
    """Products of bfloat16 by tensor cores."""

    dtype = DType.BFLOAT16
    vector = VECTOR

    def count_threads(self, side: int) -> int:
        """Return those of four warps for sixteen rows."""
        return side // ROWS * ACROSS * WARP

    def fits(self, form: Joined) -> bool:
        """Whether steps and columns are those of instructions."""
        return form.steps % DEPTH == form.width % (ACROSS * COLUMNS) == 0

    def pad(self, columns: int) -> int:
        """Return the columns of whole parts."""
        return -(-columns // PART) * PART

    def list_parts(self, form: Joined) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return columns with all of their steps, and steps of all columns."""
        return (PART, form.steps), (form.width, PART)

    def count_turns(self, form: Joined) -> tuple[int, ...]:
        """Return the number of parts, the same for both."""
        return (form.padded // PART,)


BY_CORES = ByCores()


class OnCores(Multiplying):
    """The writer of what multiplies; a thread's cells are numbered here.

    Args:
        block: how products are added up.
        form: the form.
        factors: the copies of factors.
    """

    def __init__(self, block: Block, form: Joined, factors: Sequence[Copies]) -> None:
        super().__init__(form, factors)
        self._instruction = make_instruction(block)
        _, keys, values = factors
        self._turned = [copies.is_turned for copies in factors]
        self._own = PART // (ACROSS * COLUMNS), form.width // (ACROSS * COLUMNS)
        self._deep = form.steps // DEPTH, PART // DEPTH
        self._lengths = keys.length, values.length
        sizes = [
            (CELLS[0] * deep, CELLS[1] * own * deep, CELLS[2] * own)
            for own, deep in zip(self._own, self._deep, strict=True)
        ]
        self._starts = [[sum(sizes[0]) * n + sum(sizes[n][:m]) for m in range(3)] for n in (0, 1)]
        self.cells = sum(map(sum, sizes))

    def locate(
        self, context: Context, which: int, part: ir.Value
    ) -> tuple[ir.Value | None, ir.Value]:
        """Return the first column, or the first step."""
        first = context.builder.mul(part, word(PART))
        return (first, word(0)) if which == 0 else (None, first)

    def is_whole(self, context: Context) -> None:
        """Return None: each turn ends its sums."""

    def multiply(self, which: int) -> Products:
        """Return a product's instructions."""
        first, second, third = self._starts[which]
        own, deep = self._own[which], self._deep[which]
        places = (
            (first + CELLS[0] * d, second + CELLS[1] * (c * deep + d), third + CELLS[2] * c)
            for d, c in product(range(deep), range(own))
        )
        return Products(self._instruction, tuple(places))

    def _get_warp(self, context: Context) -> tuple[ir.Value, ir.Value]:
        """Return the first row of the thread's warp, and the warp's number across."""
        builder = context.builder
        warp = builder.udiv(context.thread, word(WARP))
        row = builder.mul(builder.udiv(warp, word(ACROSS)), word(ROWS))
        return row, builder.urem(warp, word(ACROSS))

    def take_up(self, context: Context, which: int) -> None:
        """Take up rows and columns, or weights and the last product's columns."""
        builder, form = context.builder, self._form
        row, warp = self._get_warp(context)
        if which == 0:
            part = find_part(form, context, context.turn)
            self._take_rows(context, 0, row, word(form.places[Area.ROWS]))
            self._take_columns(context, 0, warp, part)
            self.start(context, 0)
        else:
            first = builder.mul(context.turn, word(PART * WIDTH))
            weights = builder.add(first, word(form.places[Area.WEIGHTS]))
            self._take_rows(context, 1, row, weights)
            self._take_columns(context, 1, warp, None)

    def _take_rows(self, context: Context, which: int, row: ir.Value, start: ir.Value) -> None:
        """Take up the rows that the warp multiplies, of an area that begins there."""
        form, is_turned = self._form, which == 0 and self._turned[0]
        pitch = form.pitches[(Area.ROWS, Area.WEIGHTS)[which]]
        locate = partial(find_element, form, context, start, pitch)
        self._fetch(context, which, 0, row, locate, is_turned=is_turned)

    def _take_columns(
        self, context: Context, which: int, warp: ir.Value, part: ir.Value | None
    ) -> None:
        """Take up the columns that it multiplies, of a part that begins there, or of the turn's."""
        form = self._form
        line = context.builder.mul(warp, word(self._own[which] * COLUMNS))
        start = find_part(form, context, context.turn) if part is None else part
        locate = partial(find_element, form, context, start, form.get_pitch(self._lengths[which]))
        self._fetch(context, which, 1, line, locate, is_turned=self._turned[1 + which])

    def _fetch(
        self,
        context: Context,
        which: int,
        axis: int,
        line: ir.Value,
        locate: Locate,
        *,
        is_turned: bool,
    ) -> None:
        deep, start = self._deep[which], self._starts[which][axis]

        def number(place: int, depth: int) -> int:
            return start + CELLS[axis] * (place * deep + depth)

        counts = (1 if axis == 0 else self._own[which]), deep
        fetch(context, axis, counts, line, locate, number, is_turned=is_turned)

    def start(self, context: Context, which: int) -> None:
        """Set the sums of a product to its initial value."""
        bits = self._form.starts[which]
        for cell in range(CELLS[2] * self._own[which]):
            context.set_cell(self._starts[which][2] + cell, INDEX(bits))

    def list_sums(self, context: Context, which: int) -> Iterator[Sum]:
        """Yield a thread's sums of a product."""
        builder, own = context.builder, self._own[which]
        row, warp = self._get_warp(context)
        lane = builder.urem(context.thread, word(WARP))
        row = builder.add(row, builder.udiv(lane, word(4)))
        first = builder.mul(warp, word(own * COLUMNS))
        first = builder.add(first, builder.mul(builder.urem(lane, word(4)), word(2)))
        for place, cell in product(range(own), range(CELLS[2])):
            number = self._starts[which][2] + CELLS[2] * place + cell
            at = builder.add(row, word(COLUMNS * (cell // 2)))
            yield Sum(number, at, builder.add(first, word(COLUMNS * place + cell % 2)))
