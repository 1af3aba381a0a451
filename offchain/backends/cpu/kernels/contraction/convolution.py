"""Matrix products whose first factor is read in place, through tables of offsets.

out[m, n] starts as init[n] and becomes fma(a[m, k], b[k, n], out[m, n]) for k = 0, 1, 2, ..., where
a[m, k] lies `rows[m] + steps[k]` bytes behind an address: all that a convolution reads of an image
whose border has been filled in, so that the image is never unfolded. A step of k broadcasts an
element of every row of a tile to the vectors of b, which is packed into panels of columns. The sums
of a tile stay in registers over a block of k. Tiles are turned when they are written, for rows are
what lies side by side in the result of a convolution.
"""

import platform
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from offchain.backends.cpu.kernels.contraction.convolution_packing import (
    WORD_BYTES,
    copy_window,
    emit_first,
    load_word,
    pack_columns,
)
from offchain.backends.cpu.kernels.contraction.tile import (
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
    emit_any_size,
    emit_canonical,
)
from offchain.native import vectors
from offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from offchain.native.machine import REGISTER_BITS, VECTOR_BITS
from offchain.native.vectors import FLOAT, INDEX, LANES, VECTOR_BYTES, WORD

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

TILE_SIZE = ROWS * COLUMNS
"""Floats of a tile."""

_STEP_BYTES = 2 * VECTOR_BYTES
_TILE_BYTES = ROWS * _STEP_BYTES
_LEAST_RUN = 4
"""Rows that lie side by side in the result and are worth a vector."""

_VECTOR = ir.VectorType(FLOAT, LANES)
_BITS = ir.VectorType(INDEX, LANES)
_MINUS_ZERO, _EXPONENT = -(2**31), 0x7F800000
_REGISTER = "w" if platform.machine().lower() in ("aarch64", "arm64") else "v"
"""LLVM's constraint for a vector register."""


class Block(NamedTuple):
    """A box of rows and a block of k, as the kernel takes them: int64, offsets in bytes.

    Attributes:
        rows: address of the offsets of the rows from their origin; a last entry repeats any row.
        row_count: number of rows, M.
        steps: address of pairs of offsets of each step of k, in a row and in a panel.
        step_count: number of steps.
        row_places: address of the offsets of the M rows from their origin in the result.
        out_start: the offset of that origin.
        start: offset of the rows' origin in the image, or in the window.
        planes: address of the numbers of the window's planes, 0 to read the image itself.
        plane_count: planes of the window.
        plane: number of a plane of the image, which is to be added to those numbers.
        first_row: of the window, of any sign.
        first_column: of the window, of any sign.
        height: rows of the window.
        width: columns of the window.
    """

    rows: int
    row_count: int
    steps: int
    step_count: int
    row_places: int
    out_start: int
    start: int
    planes: int = 0
    plane_count: int = 0
    plane: int = 0
    first_row: int = 0
    first_column: int = 0
    height: int = 0
    width: int = 0


@kernel(
    reads(types.float32, 1),
    types.int64,
    types.int64,
    types.float32,
    reads(types.int64, 2),
    types.int64,
    types.int64,
    reads(types.float32, 1),
    reads(types.int64, 1),
    reads(types.int64, 2),
    writes(types.float32, 1),
    types.int64,
    reads(types.float32, 1),
    writes(types.float32, 1),
    reads(types.int64, 1),
    writes(types.float32, 1),
    writes(types.float32, 1),
    types.int64,
    types.int64,
    writes(types.int64, 1),
)
def multiply_blocks(
    image: Floats,
    height: int,
    width: int,
    fill: float,
    blocks: Integers,
    other_start: int,
    init_start: int,
    other: Floats,
    columns: Integers,
    runs: Integers,
    panels: Floats,
    depth: int,
    init: Floats,
    out: Floats,
    column_places: Integers,
    window: Floats,
    tiles: Floats,
    is_first: int,
    is_last: int,
    suspects: Integers,
) -> None:
    """Multiply boxes of rows that are read in place by columns, over a block of k.

    Args:
        image: the first factor.
        height: rows of its planes.
        width: columns of its planes.
        fill: what lies outside of them.
        blocks: (B, fields of `Block`) int64.
        other_start: offset in bytes of the columns in the second factor.
        init_start: offset in bytes of their start values in `init`.
        other: the second factor.
        columns: (J,) int64: the columns in it, as `pack_columns` takes them.
        runs: (R, 3) int64: the steps of the block of k in it, likewise.
        panels: room for the columns, packed.
        depth: steps of a panel.
        init: float32: start values of the columns, and of `COLUMNS` more.
        out: the result.
        column_places: (N,) int64: offset of each column from a row's place.
        window: room for the largest window.
        tiles: what the sums of all tiles are between blocks of k, or room for a tile if this block
            is the only one.
        is_first: whether no block of k precedes this one.
        is_last: whether none follows.
        suspects: (1,) int64: is increased if a result is -0 or not finite; (0,) not to look.
    """
    tile = tiles.ctypes.data
    pack_columns(other, other_start, columns, len(column_places), runs, depth, panels, 2)
    for number in range(len(blocks)):
        block = blocks[number]
        a = image.ctypes.data
        if block[7]:
            size, first, shape = (height, width), (block[10], block[11]), (block[12], block[13])
            target = window.ctypes.data
            copy_window(a, size, block[9], block[7], block[8], first, shape, fill, target)
            a = target
        for row in range(0, block[1], ROWS):
            for j in range(0, len(column_places), COLUMNS):
                source, source_step = tile, _STEP_BYTES
                if is_first:
                    source = init.ctypes.data + init_start + j * FLOAT_BYTES
                    source_step = 0
                extent = min(ROWS, block[1] - row), min(COLUMNS, len(column_places) - j)
                # While a tile is multiplied by the first panel, the last row of the next one is
                # brought, and with it the others where rows lie side by side.
                next_row = row if j else min(row + 2 * ROWS, block[1]) - 1
                _multiply_tile(
                    *extent,
                    a + block[6],
                    load_word(block[0] + next_row * WORD_BYTES),
                    block[0] + row * WORD_BYTES,
                    block[2],
                    block[3],
                    panels.ctypes.data + j // COLUMNS * depth * _STEP_BYTES,
                    source,
                    source_step,
                    tile,
                )
                if is_last:
                    for i in range(len(suspects)):
                        suspects[i] += _count_suspects(tile, *extent)
                    places = column_places.ctypes.data + j * WORD_BYTES
                    target = out.ctypes.data + block[5]
                    _store_tile(tile, *extent, target, block[4] + row * WORD_BYTES, places)
                if not (is_first and is_last):
                    tile += _TILE_BYTES


@subroutine
def _count_suspects(tile: int, height: int, width: int) -> int:
    count = 0
    for row in range(height):
        for column in range(0, width, LANES):
            count += _is_suspect(tile + row * _STEP_BYTES + column * FLOAT_BYTES)
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
def _store_tile(
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
            _store_row(tile + row * _STEP_BYTES, width, out + place, column_places)
        else:
            for first in range(row, end, LANES):
                for column in range(0, width, LANES):
                    _store_turned(
                        tile + first * _STEP_BYTES + column * FLOAT_BYTES,
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
        offset = builder.select(is_inside, WORD(row * _STEP_BYTES), WORD(0))
        loaded.append(vectors.load(builder, _VECTOR, builder.add(tile, offset)))

    def store(column: int, vector: ir.Value) -> None:
        place = vectors.load(builder, WORD, places, column * WORD_BYTES)
        vectors.store_first(builder, vector, builder.add(out, place), rows)

    emit_first(builder, columns, vectors.transpose(builder, loaded), store)


@emitted(types.void, *[types.intp] * 11)
def _multiply_tile(builder: ir.IRBuilder, *words: ir.Value) -> None:
    """Call `_emit_sizes` as a function of its own, in which the loop has all registers."""
    function = builder.module.globals.get(_emit_sizes.__name__)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [WORD] * len(words))
        function = ir.Function(builder.module, kind, _emit_sizes.__name__)
        function.linkage = "internal"
        function.attributes.add("noinline")
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        _emit_sizes(inner, *function.args)
        inner.ret_void()
    builder.call(function, words)


def _emit_sizes(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *operands: ir.Value
) -> None:
    """Add products to a tile; an odd number of rows is rounded up.

    The other arguments: address of a, the offset of a row that is read soon, address of the rows'
    offsets, of the steps, their number, the panel of b, what the sums start from, the distance of
    its rows, and the tile.
    """

    def emit(height: int, width: int) -> None:
        _emit_tile(builder, height, width, *operands)

    emit_any_size(builder, rows, columns, emit)


def _emit_tile(
    builder: ir.IRBuilder,
    height: int,
    width: int,
    a: ir.Value,
    ahead: ir.Value,
    rows: ir.Value,
    steps: ir.Value,
    depth: ir.Value,
    b: ir.Value,
    source: ir.Value,
    source_step: ir.Value,
    tile: ir.Value,
) -> None:
    spots = [(row, v * VECTOR_BYTES) for row in range(height) for v in range(width)]
    offsets = [vectors.load(builder, WORD, rows, row * WORD_BYTES) for row in range(height)]

    def multiply(step: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        entry = builder.add(steps, builder.shl(step, WORD(4)))
        at_a = builder.add(a, vectors.load(builder, WORD, entry))
        at_b = builder.add(b, vectors.load(builder, WORD, entry, WORD_BYTES))
        factors = [vectors.load(builder, _VECTOR, at_b, v * VECTOR_BYTES) for v in range(width)]
        vectors.prefetch(builder, builder.add(at_a, ahead), FLOAT_BYTES)
        following = []
        for row, offset in enumerate(offsets):
            element = vectors.load(builder, FLOAT, builder.add(at_a, offset))
            factor = vectors.splat(builder, element, LANES)
            for v in range(width):
                terms = [factor, factors[v], sums[row * width + v]]
                following.append(hold(builder, vectors.call(builder, "llvm.fma", terms)))
        return following

    start = []
    for row, offset in spots:
        place = builder.add(source, builder.mul(source_step, WORD(row)))
        start.append(vectors.load(builder, _VECTOR, place, offset))
    sums = vectors.repeat(builder, depth, start, multiply)
    for (row, offset), total in zip(spots, sums, strict=True):
        place = builder.add(tile, WORD(row * _STEP_BYTES))
        vectors.store(builder, emit_canonical(builder, total), place, offset)


def hold(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """The vector itself, in a register, and computed before memory is next read.

    LLVM would otherwise load all factors of a step, and more steps, before it uses the first one,
    and run out of registers. A vector that no register holds is left alone.
    """
    if VECTOR_BITS > REGISTER_BITS:
        return vector
    kind = ir.FunctionType(vector.type, [vector.type])
    constraint = f"={_REGISTER},0,~{{memory}}"
    return builder.asm(kind, "", constraint, [vector], side_effect=True)
