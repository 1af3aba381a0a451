"""What convolutions do with the tiles of their results: look at them and put them into place."""

from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.convolution_packing import (
    WORD_BYTES,
    emit_first,
)
from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, subroutine
from moot.offchain.native.vectors import CACHE_LINE_BYTES, FLOAT, INDEX, LANES, VECTOR_BYTES, WORD
from moot.offchain.native.words import load_word

TILE_STEP_BYTES = 2 * VECTOR_BYTES
"""Bytes from a tile's row to the next."""

_MOST_SPREAD = 2
"""Floats from one row to the next in the result up to which whole lines are brought for them."""

_LEAST_RUN = 4
"""Rows that lie side by side in the result and are worth a vector."""

_VECTOR = ir.VectorType(FLOAT, LANES)
_BITS = ir.VectorType(INDEX, LANES)
_MINUS_ZERO, _EXPONENT = -(2**31), 0x7F800000


@subroutine
def bring_places(
    out: int, row_places: int, height: int, column_places: int, first: int, stop: int
) -> None:
    """Bring what some columns of a group will be written to, where its rows lie close together."""
    start = load_word(row_places)
    size = load_word(row_places + (height - 1) * WORD_BYTES) - start
    if 0 <= size <= _MOST_SPREAD * height * FLOAT_BYTES:
        for column in range(first, stop):
            place = out + start + load_word(column_places + column * WORD_BYTES)
            for offset in range(0, size, CACHE_LINE_BYTES):
                _bring(place + offset)
            _bring(place + size)


@emitted(types.void, types.intp)
def _bring(builder: ir.IRBuilder, place: ir.Value) -> None:
    vectors.prefetch(builder, place, FLOAT_BYTES, level=2)


@subroutine
def count_suspects(tile: int, height: int, width: int) -> int:
    """How many vectors of a tile hold -0 or what is not finite."""
    count = 0
    for row in range(height):
        for column in range(0, width, LANES):
            count += _is_suspect(tile + row * TILE_STEP_BYTES + column * FLOAT_BYTES)
    return count


@emitted(types.int64, types.intp)
def _is_suspect(builder: ir.IRBuilder, source: ir.Value) -> ir.Value:
    """1 if a vector holds -0 or what is not finite, else 0."""
    found = find_suspects(builder, vectors.load(builder, _VECTOR, source))
    lanes = builder.bitcast(found, ir.IntType(LANES))
    return builder.zext(builder.icmp_unsigned("!=", lanes, ir.IntType(LANES)(0)), WORD)


def find_suspects(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """The lanes that hold -0 or what is not finite."""
    bits = builder.bitcast(vector, _BITS)
    minus_zero, exponent = (ir.Constant(_BITS, [x] * LANES) for x in (_MINUS_ZERO, _EXPONENT))
    is_zero = builder.icmp_signed("==", bits, minus_zero)
    is_high = builder.icmp_signed("==", builder.and_(bits, exponent), exponent)
    return builder.or_(is_zero, is_high)


@subroutine
def store_tile(
    tile: int, height: int, width: int, out: int, row_places: int, column_places: int
) -> None:
    """Write a tile to its places: vectors of rows where they lie side by side."""
    row = 0
    while row < height:
        place = load_word(row_places + row * WORD_BYTES)
        end, expected = row + 1, place + FLOAT_BYTES
        while end < height and load_word(row_places + end * WORD_BYTES) == expected:
            end, expected = end + 1, expected + FLOAT_BYTES
        if end - row < _LEAST_RUN:
            end = row + 1
            _store_row(tile + row * TILE_STEP_BYTES, width, out + place, column_places)
        else:
            for first in range(row, end, LANES):
                for column in range(0, width, LANES):
                    _store_turned(
                        tile + first * TILE_STEP_BYTES + column * FLOAT_BYTES,
                        min(LANES, end - first),
                        out + place + (first - row) * FLOAT_BYTES,
                        column_places + column * WORD_BYTES,
                        min(LANES, width - column),
                    )
        row = end


@emitted(types.void, *[types.intp] * 4)
def _store_row(
    builder: ir.IRBuilder, tile: ir.Value, columns: ir.Value, out: ir.Value, places: ir.Value
) -> None:
    """Store the columns of a row, each at its place."""

    def store(column: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        place = vectors.load(builder, WORD, builder.add(places, builder.shl(column, WORD(3))))
        source = builder.add(tile, builder.shl(column, WORD(2)))
        vectors.store(builder, vectors.load(builder, FLOAT, source), builder.add(out, place))
        return []

    vectors.repeat(builder, columns, [], store)


@emitted(types.void, *[types.intp] * 5)
def _store_turned(
    builder: ir.IRBuilder,
    tile: ir.Value,
    rows: ir.Value,
    out: ir.Value,
    places: ir.Value,
    columns: ir.Value,
) -> None:
    """Store up to `LANES` rows of a vector of columns, as columns, each at its place."""
    loaded = []
    for row in range(LANES):
        is_inside = builder.icmp_signed("<", WORD(row), rows)
        offset = builder.select(is_inside, WORD(row * TILE_STEP_BYTES), WORD(0))
        loaded.append(vectors.load(builder, _VECTOR, builder.add(tile, offset)))

    def store(column: int, vector: ir.Value) -> None:
        place = vectors.load(builder, WORD, places, column * WORD_BYTES)
        vectors.store_first(builder, vector, builder.add(out, place), rows)

    emit_first(builder, columns, vectors.transpose(builder, loaded), store)
