"""The register micro-kernel: one tile of a product, computed from panels of its operands.

A panel of a holds the factors of up to `ROWS` rows, a panel of b those of up to `COLUMNS` columns.
Panels are read where they lie, with any distance between the steps of k; packed ones
(`packing.py`) have `A_STEP_BYTES` and `B_STEP_BYTES`. The sums stay in registers over all steps,
and each takes its terms in ascending order.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

from collections.abc import Callable, Container, Sequence
from functools import reduce

from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.functions import CANONICAL_NAN
from moot.offchain.native import vectors
from moot.offchain.native.compiled import linked
from moot.offchain.native.machine import VECTOR_REGISTERS
from moot.offchain.native.vectors import FLOAT, INDEX, LANES, VECTOR_BYTES, WORD

FLOAT_BYTES = 4

ROWS = (VECTOR_REGISTERS - 4) // 2
"""Rows of the largest tile; it is two vectors wide and leaves registers for one step's factors."""

_WIDTH = 2
COLUMNS = _WIDTH * LANES
A_STEP_BYTES = -(-ROWS // LANES) * VECTOR_BYTES
B_STEP_BYTES = 2 * VECTOR_BYTES

TURN = 2
"""Steps between two jumps where tiles are as large as can be: a power of two."""

_WAITING = range(6, ROWS, 2)
"""Rows of tiles that take about as long to multiply a step of b as a far cache takes to bring it:
fewer wait for that cache in any case, and more rows read what others have read before."""

_AHEAD_BYTES = 512
"""How far ahead they ask for it."""

_VECTOR = ir.VectorType(FLOAT, LANES)
_BITS = ir.VectorType(INDEX, LANES)
_SCRATCH = ir.ArrayType(_VECTOR, 2 * ROWS)
_SCRATCH_STEP_BYTES = 2 * VECTOR_BYTES


@linked(*[types.intp] * 16)
def multiply_tile(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *words: ir.Value
) -> None:
    """Write the sums at `source` plus the products of two panels to `target`.

    An odd number of rows is rounded up, and columns to whole vectors: panels have to be readable
    that far, but what lies there may be anything. Arguments:
        rows: of the tile, from 1 to `ROWS`.
        columns: of the tile, from 1 to `COLUMNS`.
        a, a_row_step, a_step: address of the panel of a, bytes between its rows and between steps.
        b, b_step: address of the panel of b, whose columns are contiguous, bytes between steps.
        depth: steps of k, at least 1.
        source, source_step: address of what the sums start from, and bytes between its rows, which
            are contiguous.
        target, target_step: likewise for the results; the address may be that of `source`.
        soon, line, lines, jump: what the second-level cache is asked for meanwhile, if the tile is
            as large as can be: an address, a line of the cache every other step; the number of this
            line in its row, the lines of a row, and bytes from its last one to the next row.
    """
    panels, places, soon = words[:6], words[6:10], words[10:]
    narrow, wide = (builder.icmp_signed("==", columns, WORD(n)) for n in (LANES, COLUMNS))
    is_odd = builder.trunc(rows, ir.IntType(1))
    is_whole = builder.and_(builder.not_(is_odd), builder.or_(narrow, wide))
    scratch = builder.ptrtoint(builder.alloca(_SCRATCH), WORD)
    scratch_place = scratch, WORD(_SCRATCH_STEP_BYTES)
    with builder.if_then(builder.not_(is_whole)):
        copy_rows(builder, rows, columns, (*places[:2], *scratch_place))
    reached = [
        builder.select(is_whole, direct, indirect)
        for direct, indirect in zip(places, scratch_place * 2, strict=True)
    ]

    def emit(height: int, width: int) -> None:
        emit_size(builder, height, width, panels, reached)

    is_packed, is_in_rows = _find_usual(builder, rows, columns, panels)
    with builder.if_else(is_packed) as (packed, other):
        with packed:
            steps = WORD(FLOAT_BYTES), WORD(A_STEP_BYTES), WORD(B_STEP_BYTES)
            _emit_full(builder, panels, steps, reached, soon)
        with other, builder.if_else(is_in_rows) as (in_rows, general):
            with in_rows:
                steps = panels[1], WORD(FLOAT_BYTES), WORD(B_STEP_BYTES)
                _emit_full(builder, panels, steps, reached, soon)
            with general:
                emit_any_size(builder, rows, columns, emit)
    with builder.if_then(builder.not_(is_whole)):
        copy_rows(builder, rows, columns, (*scratch_place, *places[2:]))


def _find_usual(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, panels: Sequence[ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Whether a tile is as large as can be, of panels, or of rows of a that lie where they do.

    The code for these has the distances of steps in its instructions and takes two steps a turn: a
    processor that gives half of its cycles to another thread is kept by what fetches instructions.
    """
    _, a_row_step, a_step, _, b_step, depth = panels

    def is_all(*pairs: tuple[ir.Value, int]) -> ir.Value:
        same = [builder.icmp_signed("==", value, WORD(number)) for value, number in pairs]
        return reduce(builder.and_, same)

    odd = builder.and_(depth, WORD(TURN - 1))
    full = is_all((rows, ROWS), (columns, COLUMNS), (b_step, B_STEP_BYTES), (odd, 0))
    packed = is_all((a_row_step, FLOAT_BYTES), (a_step, A_STEP_BYTES))
    return builder.and_(full, packed), builder.and_(full, is_all((a_step, FLOAT_BYTES)))


def _emit_full(
    builder: ir.IRBuilder,
    panels: Sequence[ir.Value],
    steps: Sequence[ir.Value],
    places: Sequence[ir.Value],
    soon: Sequence[ir.Value],
) -> None:
    """Emit code for the largest tile, given the distances of rows of a and of steps of a and b."""
    a, _, _, b, _, depth = panels
    turns = builder.udiv(depth, WORD(TURN))
    emit_size(builder, ROWS, _WIDTH, (a, *steps[:2], b, steps[2], turns), places, TURN, soon)


def _place_rows(builder: ir.IRBuilder, step: ir.Value, height: int) -> list[ir.Value]:
    """The distances of some rows from the first, of which an instruction adds each by itself.

    It adds a register times a power of two. LLVM would make a chain of additions, did it know more.
    """
    if isinstance(step, ir.Constant):
        return [WORD(step.constant * row) for row in range(height)]
    hidden = {}
    for row in range(1, height, 2):
        same = ir.InlineAsm(ir.FunctionType(WORD, [WORD]), "", "=r,0", side_effect=True)
        hidden[row] = builder.call(same, [builder.mul(step, WORD(row))])
    found = [WORD(0)]
    for row in range(1, height):
        twos = (row & -row).bit_length() - 1
        found.append(builder.shl(hidden[row >> twos], WORD(twos)))
    return found


def copy_rows(
    builder: ir.IRBuilder,
    rows: ir.Value,
    columns: ir.Value,
    places: Sequence[ir.Value],
    width: int = _WIDTH,
) -> None:
    """Copy rows of so many vectors at most, given two addresses and the bytes between rows."""
    source, source_step, target, target_step = places

    def copy_row(row: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        start = builder.add(source, builder.mul(row, source_step))
        copy = builder.add(target, builder.mul(row, target_step))
        for v in range(width):
            count = builder.sub(columns, WORD(v * LANES))
            offset = WORD(v * VECTOR_BYTES)
            vector = vectors.load_first(builder, _VECTOR, builder.add(start, offset), count)
            vectors.store_first(builder, vector, builder.add(copy, offset), count)
        return []

    vectors.repeat(builder, rows, [], copy_row)


def emit_any_size(
    builder: ir.IRBuilder,
    rows: ir.Value,
    columns: ir.Value,
    emit: Callable[[int, int], None],
    most: tuple[int, int] = (ROWS, _WIDTH),
) -> None:
    """Emit code for a tile of any size.

    Args:
        builder: where to.
        rows: of the tile; an odd number is rounded up.
        columns: of the tile, rounded up to whole vectors.
        emit: emits the code for a number of rows and of vectors.
        most: the most rows, an even number, and vectors.
    """
    end = builder.append_basic_block("end")
    more = builder.udiv(builder.sub(columns, WORD(1)), WORD(LANES))
    even = builder.and_(builder.add(rows, WORD(1)), WORD(-2))
    switch = builder.switch(builder.or_(builder.shl(even, WORD(1)), more), end)
    for height in range(2, most[0] + 1, 2):
        for width in range(1, most[1] + 1):
            block = builder.append_basic_block("tile")
            switch.add_case(WORD(height << 1 | width - 1), block)
            builder.position_at_end(block)
            emit(height, width)
            builder.branch(end)
    builder.position_at_end(end)


def emit_size(
    builder: ir.IRBuilder,
    height: int,
    width: int,
    panels: Sequence[ir.Value],
    places: Sequence[ir.Value],
    turn: int = 1,
    soon: Sequence[ir.Value] = (),
    waiting: Container[int] = _WAITING,
) -> None:
    """Emit code for a tile of some rows and vectors, which takes so many steps a turn.

    Each turn asks for a line of what is needed soon, if that is given; tiles of rows that wait ask
    for later steps of b.
    """
    a, a_row_step, a_step, b, b_step, turns = panels
    distances = _place_rows(builder, a_row_step, height)
    source, source_step, target, target_step = places
    spots = [(row, v * VECTOR_BYTES) for row in range(height) for v in range(width)]

    def place(start: ir.Value, step: ir.Value, row: int) -> ir.Value:
        return builder.add(start, builder.mul(step, WORD(row)))

    def multiply(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        at_a, at_b, *carried = carried
        sums = carried[: len(spots)]
        ahead = _bring(builder, carried[len(spots) :], *soon[2:]) if soon else []
        for _step in range(turn):
            factors = [vectors.load(builder, _VECTOR, at_b, v * VECTOR_BYTES) for v in range(width)]
            if height in waiting:
                following = builder.add(at_b, WORD(_AHEAD_BYTES))
                vectors.prefetch(builder, following, width * VECTOR_BYTES)
            for row in range(height):
                element = vectors.load(builder, FLOAT, builder.add(at_a, distances[row]))
                factor = vectors.splat(builder, element, LANES)
                for v in range(width):
                    terms = [factor, factors[v], sums[row * width + v]]
                    sums[row * width + v] = vectors.call(builder, "llvm.fma", terms)
            at_a, at_b = builder.add(at_a, a_step), builder.add(at_b, b_step)
        return [at_a, at_b, *sums, *ahead]

    sums = [
        vectors.load(builder, _VECTOR, place(source, source_step, row), offset)
        for row, offset in spots
    ]
    _, _, *sums = vectors.repeat(builder, turns, [a, b, *sums, *soon[:2]], multiply)
    for (row, offset), total in zip(spots, sums[: len(spots)], strict=True):
        value = emit_canonical(builder, total)
        vectors.store(builder, value, place(target, target_step, row), offset)


def _bring(
    builder: ir.IRBuilder, carried: Sequence[ir.Value], lines: ir.Value, jump: ir.Value
) -> list[ir.Value]:
    """Ask for a line, and return the address of the next one and its number in its row."""
    soon, line = carried
    vectors.prefetch(builder, soon, FLOAT_BYTES, level=2)
    following = builder.add(line, WORD(1))
    is_end = builder.icmp_signed("==", following, lines)
    distance = builder.select(is_end, jump, WORD(vectors.CACHE_LINE_BYTES))
    return [builder.add(soon, distance), builder.select(is_end, WORD(0), following)]


def emit_canonical(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """The bits of a vector of floats, with one pattern for every NaN."""
    nan = ir.Constant(_BITS, [CANONICAL_NAN] * LANES)
    is_nan = builder.fcmp_unordered("uno", vector, vector)
    return builder.select(is_nan, nan, builder.bitcast(vector, _BITS))
