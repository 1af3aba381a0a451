"""Chains of sums: a tile of the output stays in registers while product after product is added.

A product is folded from its own start, step by step, in registers of its own, and is then added to
the sum. Rows of the left factors are packed once for all columns: their steps often lie as far
apart as lines of memory that drive each other out of the caches. Right factors are read where they
lie.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

from collections.abc import Sequence

from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.tile import (
    COLUMNS,
    FLOAT_BYTES,
    emit_canonical,
)
from moot.offchain.native import vectors
from moot.offchain.native.compiled import kernel, linked, subroutine
from moot.offchain.native.machine import VECTOR_REGISTERS
from moot.offchain.native.vectors import CACHE_LINE_BYTES, FLOAT, LANES, VECTOR_BYTES, WORD

ROWS = (VECTOR_REGISTERS - 4) // 4
"""Rows of the highest tile, two vectors wide: registers for sums, products and a step's factors."""

LINK_WORDS = 9
"""The words of a product: the address of a, the bytes between its rows and between its steps; the
address of b, whose columns lie side by side, and the bytes between its steps; the number of steps;
the address of what it starts from, and the bytes between the rows and between the columns of that,
the latter those of a float, or 0."""

_PANEL_LANES = ROWS + 1
PANEL_STEP_BYTES = _PANEL_LANES * FLOAT_BYTES
"""Bytes of one step in a panel of rows: a vector."""

_WORD_BYTES = 8
_HEIGHTS = sorted({ROWS, *(size for size in (4, 2, 1) if size < ROWS)})
_VECTOR = ir.VectorType(FLOAT, LANES)
_PANEL_VECTOR = ir.VectorType(FLOAT, _PANEL_LANES)

_Values = list[ir.Value]


@subroutine
def panel_bytes(steps: int) -> int:
    """Bytes of a panel of rows; neighbours do not begin where they drive each other out."""
    return steps * PANEL_STEP_BYTES + CACHE_LINE_BYTES


@kernel(*[types.int64] * 13)
def accumulate(
    links: int,
    count: int,
    steps: int,
    scratch: int,
    start: int,
    start_step: int,
    start_column_step: int,
    out: int,
    columns: int,
    group: int,
    first: int,
    stop: int,
    rows: int,
) -> None:
    """Compute groups of rows of a sum.

    Args:
        links: the address of the words of the products, `LINK_WORDS` each.
        count: how many products there are.
        steps: of all products.
        scratch: the address of room for a group of rows in panels.
        start: the address of what the sums start from,
        start_step: the bytes between its rows, and
        start_column_step: between its columns, those of a float, or 0.
        out: the address of the output, which is contiguous.
        columns: of the output.
        group: rows that are computed together, so that their factors stay in a cache.
        first: the first group, and
        stop: the one after the last.
        rows: of the output.
    """
    step, panel = columns * FLOAT_BYTES, panel_bytes(steps)
    for top in range(first * group, min(stop * group, rows), group):
        bottom = min(top + group, rows)
        pack_rows(links, count, top, bottom - top, scratch, panel)
        for column in range(0, columns, COLUMNS):
            row = top
            while row < bottom:
                height = min(bottom - row, ROWS)
                if height < ROWS:
                    height = 4 if height >= 4 < ROWS else 2 if height >= 2 else 1
                accumulate_tile(
                    height,
                    min(columns - column, COLUMNS),
                    links,
                    count,
                    scratch + (row - top) // ROWS * panel + (row - top) % ROWS * FLOAT_BYTES,
                    row,
                    column,
                    start + row * start_step + column * start_column_step,
                    start_step,
                    start_column_step,
                    out + row * step + column * FLOAT_BYTES,
                    step,
                )
                row += height


@linked(*[types.intp] * 6)
def pack_rows(
    builder: ir.IRBuilder,
    links: ir.Value,
    count: ir.Value,
    row: ir.Value,
    rows: ir.Value,
    target: ir.Value,
    panel: ir.Value,
) -> None:
    """Copy rows of the left factors of all products into panels of `ROWS`.

    All panels are written step by step, as the factors mostly lie. Arguments:
        links, count: as those of `accumulate`.
        row, rows: the number of the first one, and how many there are.
        target, panel: the address of the first panel, and the bytes between panels.
    """
    panels = builder.udiv(builder.add(rows, WORD(ROWS - 1)), WORD(ROWS))

    def pack_product(number: ir.Value, before: _Values) -> _Values:
        a, a_row_step, a_step, _, _, depth, *_ = _load_words(builder, links, number)
        start = builder.add(a, builder.mul(a_row_step, row))
        is_dense = builder.icmp_signed("==", a_row_step, WORD(FLOAT_BYTES))

        def pack_step(_: ir.Value, places: _Values) -> _Values:
            source, packed = places

            def pack_part(part: ir.Value, _: _Values) -> _Values:
                first = builder.mul(part, WORD(ROWS))
                left = vectors.minimum(builder, builder.sub(rows, first), WORD(ROWS))
                place = builder.add(source, builder.mul(a_row_step, first))
                end = builder.add(packed, builder.mul(part, panel))
                with builder.if_else(is_dense) as (dense, strided):
                    with dense:
                        found = vectors.load_first(builder, _PANEL_VECTOR, place, left)
                        vectors.store(builder, found, end)
                    with strided:
                        found = vectors.gather_first(
                            builder, _PANEL_VECTOR, place, a_row_step, left
                        )
                        vectors.store(builder, found, end)
                return []

            vectors.repeat(builder, panels, [], pack_part)
            return [builder.add(source, a_step), builder.add(packed, WORD(PANEL_STEP_BYTES))]

        return vectors.repeat(builder, depth, [start, *before], pack_step)[1:]

    vectors.repeat(builder, count, [target], pack_product)


def _load_words(builder: ir.IRBuilder, links: ir.Value, number: ir.Value) -> _Values:
    link = builder.add(links, builder.mul(number, WORD(LINK_WORDS * _WORD_BYTES)))
    return [vectors.load(builder, WORD, link, i * _WORD_BYTES) for i in range(LINK_WORDS)]


@linked(*[types.intp] * 12)
def accumulate_tile(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *words: ir.Value
) -> None:
    """Compute a tile of a sum.

    Its rows are one of `_HEIGHTS`, its columns from 1 to `COLUMNS`. Arguments:
        rows, columns: of the tile.
        links, count: as those of `accumulate`.
        packed: the address of the first step of its rows in a panel.
        row, column: the numbers of its first row and column in the output.
        start, start_step, start_column_step: where its sums start, as above.
        target, target_step: its address in the output, and the bytes between its rows.
    """
    end = builder.append_basic_block("end")
    full = builder.udiv(columns, WORD(LANES))
    rest = builder.urem(columns, WORD(LANES))
    is_part = builder.icmp_signed("!=", rest, WORD(0))
    number = builder.add(builder.mul(full, WORD(2)), builder.zext(is_part, WORD))
    switch = builder.switch(builder.or_(builder.shl(rows, WORD(3)), number), end)
    for height in _HEIGHTS:
        for whole, has_rest in ((0, True), (1, False), (1, True), (2, False)):
            block = builder.append_basic_block("tile")
            switch.add_case(WORD(height << 3 | 2 * whole + has_rest), block)
            builder.position_at_end(block)
            _Tile(builder, height, whole, rest if has_rest else None).write(*words)
            builder.branch(end)
    builder.position_at_end(end)


class _Tile:
    """The writer of a tile of a size.

    Args:
        builder: where to.
        height: the tile's rows.
        whole: its vectors of columns.
        rest: the columns behind them, if there are any.
    """

    def __init__(
        self, builder: ir.IRBuilder, height: int, whole: int, rest: ir.Value | None
    ) -> None:
        self._builder, self._height = builder, height
        self._rests: list[ir.Value | None] = [None] * whole
        if rest is not None:
            self._rests.append(rest)

    def write(
        self,
        links: ir.Value,
        count: ir.Value,
        packed: ir.Value,
        row: ir.Value,
        column: ir.Value,
        start: ir.Value,
        start_step: ir.Value,
        start_column_step: ir.Value,
        target: ir.Value,
        target_step: ir.Value,
    ) -> None:
        """Write the code of the tile; arguments are those of `accumulate_tile`."""
        builder = self._builder

        def add(number: ir.Value, before: _Values) -> _Values:
            at, *sums = before
            words = _load_words(builder, links, number)
            after, *products = self._multiply(words, at, row, column)
            return [after, *(builder.fadd(*pair) for pair in zip(sums, products, strict=True))]

        sums = self._load_starts(start, start_step, start_column_step)
        _, *sums = vectors.repeat(builder, count, [packed, *sums], add)
        for i, number, offset, rest in self._list_spots():
            value = emit_canonical(builder, sums[number])
            place = self._skip(target, target_step, i, offset)
            if rest is None:
                vectors.store(builder, value, place)
            else:
                vectors.store_first(builder, value, place, rest)

    def _multiply(
        self, words: Sequence[ir.Value], packed: ir.Value, row: ir.Value, column: ir.Value
    ) -> _Values:
        """Fold a product, given its words, and find where the rows of the next one are."""
        builder = self._builder
        _, _, _, b, b_step, depth, start, start_step, start_column_step = words

        def move(place: ir.Value, distance: ir.Value, number: ir.Value) -> ir.Value:
            return builder.add(place, builder.mul(distance, number))

        def multiply(_: ir.Value, carried: _Values) -> _Values:
            at_a, at_b, *products = carried
            factors = self._load_vectors(at_b)
            following = [
                builder.add(at_a, WORD(PANEL_STEP_BYTES)),
                builder.add(at_b, b_step),
            ]
            for i in range(self._height):
                element = vectors.load(builder, FLOAT, at_a, i * FLOAT_BYTES)
                splat = vectors.splat(builder, element, LANES)
                for factor in factors:
                    terms = [splat, factor, products[len(following) - 2]]
                    following.append(vectors.call(builder, "llvm.fma", terms))
            return following

        begin = move(move(start, start_step, row), start_column_step, column)
        starts = self._load_starts(begin, start_step, start_column_step)
        places = packed, move(b, WORD(FLOAT_BYTES), column)
        after, _, *products = vectors.repeat(builder, depth, [*places, *starts], multiply)
        return [after, *products]

    def _load_starts(self, start: ir.Value, step: ir.Value, column_step: ir.Value) -> _Values:
        """Load a tile of what sums start from, whose columns may share an element in each row."""
        builder, found = self._builder, []
        is_shared = builder.icmp_signed("==", column_step, WORD(0))
        with builder.if_else(is_shared) as (then, otherwise):
            for way, load in ((then, self._load_shared), (otherwise, self._load_vectors)):
                with way:
                    rows = [load(self._skip(start, step, i)) for i in range(self._height)]
                    found.append((builder.block, [value for row in rows for value in row]))
        merged = []
        for number in range(self._height * len(self._rests)):
            phi = builder.phi(_VECTOR)
            for block, values in found:
                phi.add_incoming(values[number], block)
            merged.append(phi)
        return merged

    def _load_shared(self, place: ir.Value) -> _Values:
        element = vectors.load(self._builder, FLOAT, place)
        return [vectors.splat(self._builder, element, LANES)] * len(self._rests)

    def _load_vectors(self, place: ir.Value) -> _Values:
        """Load a row of the tile."""
        found = []
        for number, rest in enumerate(self._rests):
            here = self._builder.add(place, WORD(number * VECTOR_BYTES))
            if rest is None:
                found.append(vectors.load(self._builder, _VECTOR, here))
            else:
                found.append(vectors.load_first(self._builder, _VECTOR, here, rest))
        return found

    def _list_spots(self) -> list[tuple[int, int, int, ir.Value | None]]:
        """Return the row, the number, the offset in its row and the rest of each vector."""
        width = len(self._rests)
        return [
            (i, i * width + v, v * VECTOR_BYTES, rest)
            for i in range(self._height)
            for v, rest in enumerate(self._rests)
        ]

    def _skip(self, place: ir.Value, step: ir.Value, row: int, offset: int = 0) -> ir.Value:
        """Return the address so many rows and bytes behind another one."""
        builder = self._builder
        return builder.add(builder.add(place, builder.mul(step, WORD(row))), WORD(offset))
