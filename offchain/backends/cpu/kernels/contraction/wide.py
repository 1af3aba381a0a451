"""Large products: packed rows stream past a few packed columns that a near cache holds.

All rows of a block are packed once. Then come the columns, as many at a time as the second-level
cache holds beside other things: they are packed, and every panel of rows is multiplied by all of
them. So a panel of rows is read from end to end, as prefetchers foresee, and so seldom that a far
cache keeps up; columns, of which a tile reads more at each step, never leave the near one.

A tile is three vectors wide. It takes fewer instructions for each multiply-add than one of more
rows and two vectors, which counts where another program has half of the core.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.blocks import (
    SPARE_BYTES,
    find_lines,
    find_start,
    make_kernel,
)
from moot.offchain.backends.cpu.kernels.contraction.packing import pack, panel_bytes
from moot.offchain.backends.cpu.kernels.contraction.tile import (
    FLOAT_BYTES,
    copy_rows,
    emit_any_size,
    emit_size,
)
from moot.offchain.native.compiled import linked, subroutine
from moot.offchain.native.machine import VECTOR_REGISTERS
from moot.offchain.native.vectors import CACHE_LINE_BYTES, FLOAT, LANES, VECTOR_BYTES, WORD

Floats = npt.NDArray[np.float32]

_WIDTH = 3

ROWS = VECTOR_REGISTERS // 4
"""Rows of the largest tile, an even number."""

COLUMNS = _WIDTH * LANES
A_STEP_BYTES = ROWS * FLOAT_BYTES
B_STEP_BYTES = _WIDTH * VECTOR_BYTES

_TURN = 4
"""Steps between two jumps where tiles are as large as can be: a power of two."""

_PAIR = 2 * ROWS
"""Rows of two panels, which may be packed together."""

_VECTOR = ir.VectorType(FLOAT, LANES)
_SCRATCH = ir.ArrayType(_VECTOR, _WIDTH * ROWS)


def count_scratch_bytes(m: int, depth: int, near: int) -> int:
    """Return the bytes of scratch memory for so many rows, steps of k and panels of columns."""
    steps = -(-depth // LANES) * LANES
    return SPARE_BYTES + steps * (-(-m // _PAIR) * 2 * A_STEP_BYTES + near * B_STEP_BYTES)


@subroutine
def _multiply_wide_block(
    a: Floats, b: Floats, init: Floats, out: Floats, scratch: Floats, near: int, depth: int
) -> None:
    """Compute one block, so many panels of columns and steps at a time.

    Args:
        a: (M, K).
        b: (K, N).
        init: (M, N).
        out: (M, N) with contiguous rows.
        scratch: `count_scratch_bytes` of its rows.
        near: panels of columns that are packed at a time.
        depth: steps of k that are computed at a time.
    """
    width = near * COLUMNS
    start, step, column_step = find_start(init, out, scratch)
    packed_b, n = scratch.ctypes.data + SPARE_BYTES, b.shape[1]
    for k in range(0, a.shape[1], depth):
        end_k = min(k + depth, a.shape[1])
        rows, steps, later = a[:, k:end_k], b[k:end_k], b[end_k : min(end_k + depth, a.shape[1])]
        packed_a = packed_b + near * panel_bytes(end_k - k, B_STEP_BYTES)
        pack(rows, ROWS, A_STEP_BYTES, packed_a)
        for column in range(0, n, width):
            end = min(column + width, n)
            pack(steps[:, column:end].T, COLUMNS, B_STEP_BYTES, packed_b)
            following = steps[:, end : min(end + width, n)] if end < n else later[:, :width]
            place = start + column * column_step
            _multiply_tiles(
                packed_a,
                packed_b,
                end_k - k,
                place,
                step,
                column_step,
                out[:, column:end],
                following,
            )
        start, step, column_step = out.ctypes.data, out.strides[0], FLOAT_BYTES


multiply_wide_blocks = make_kernel(_multiply_wide_block)
"""Computes blocks of a product whose rows stream past packed columns."""


@subroutine
def _multiply_tiles(
    packed_a: int,
    packed_b: int,
    depth: int,
    start: int,
    start_step: int,
    start_column_step: int,
    out: Floats,
    following: Floats,
) -> None:
    """Compute a product of panels tile by tile.

    Meanwhile it asks for what a near cache will need: in the first tile of each panel of rows for
    the next rows of the result, in the others for the columns that are packed next.

    Args:
        packed_a: address of the panels of rows.
        packed_b: address of the panels of columns.
        depth: steps of k.
        start: address of what the sums start from.
        start_step: bytes between its rows.
        start_column_step: bytes between its columns, 0 if all tiles start from the same.
        out: (M, N) with contiguous rows.
        following: the columns of b that are needed next, (K, F).
    """
    m, n = out.shape
    a_panel, b_panel = panel_bytes(depth, A_STEP_BYTES), panel_bytes(depth, B_STEP_BYTES)
    across, turns, asked = -(-n // COLUMNS), depth // _TURN, 0
    out_lines = -(-n * FLOAT_BYTES // CACHE_LINE_BYTES) + 1
    soon, lines, rows_of_lines, row_step = find_lines(following)
    for tile in range(-(-m // ROWS) * across):
        i, j = tile // across * ROWS, tile % across * COLUMNS
        place = out.ctypes.data + i * out.strides[0] + j * FLOAT_BYTES
        row, line = asked // lines, asked % lines
        if (tile % across == 0 and (across > 1 or tile % 2)) or row >= rows_of_lines:
            ahead, line, end, jump = place + ROWS * out.strides[0], 0, out_lines, out.strides[0]
        else:
            ahead, end, jump = soon + row * row_step + line * CACHE_LINE_BYTES, lines, row_step
            asked += turns
        multiply_wide_tile(
            min(ROWS, m - i),
            min(COLUMNS, n - j),
            packed_a + i // ROWS * a_panel,
            packed_b + j // COLUMNS * b_panel,
            depth,
            start + i * start_step + j * start_column_step,
            start_step,
            place,
            out.strides[0],
            ahead,
            line,
            end,
            jump - (end - 1) * CACHE_LINE_BYTES,
        )


@linked(*[types.intp] * 13)
def multiply_wide_tile(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *words: ir.Value
) -> None:
    """Write the sums at `source` plus the products of two panels to `target`.

    Panels have all of their rows and columns, though some may be anything. Arguments:
        rows: of the tile, from 1 to `ROWS`.
        columns: of the tile, from 1 to `COLUMNS`.
        a, b: addresses of the panels.
        depth: steps of k, at least 1.
        source, source_step: address of what the sums start from, and bytes between its rows, which
            are contiguous.
        target, target_step: likewise for the results; the address may be that of `source`.
        soon, line, lines, jump: what the second-level cache is asked for meanwhile, if the tile is
            as large as can be: an address, a line of the cache every turn; the number of this line
            in its row, the lines of a row, and bytes from its last one to the next row.
    """
    (a, b, depth), places, soon = words[:3], words[3:7], words[7:]
    odd_columns = builder.urem(columns, WORD(LANES))
    odd = builder.or_(builder.and_(rows, WORD(1)), odd_columns)
    is_whole = builder.icmp_signed("==", odd, WORD(0))
    scratch = builder.ptrtoint(builder.alloca(_SCRATCH), WORD)
    scratch_place = scratch, WORD(B_STEP_BYTES)
    with builder.if_then(builder.not_(is_whole)):
        copy_rows(builder, rows, columns, (*places[:2], *scratch_place), _WIDTH)
    reached = [
        builder.select(is_whole, direct, indirect)
        for direct, indirect in zip(places, scratch_place * 2, strict=True)
    ]
    steps = WORD(FLOAT_BYTES), WORD(A_STEP_BYTES), b, WORD(B_STEP_BYTES)
    is_high, is_wide = (
        builder.icmp_signed("==", size, WORD(most))
        for size, most in ((rows, ROWS), (columns, COLUMNS))
    )
    rest = builder.and_(depth, WORD(_TURN - 1))
    is_full = builder.and_(builder.and_(is_high, is_wide), builder.icmp_signed("==", rest, WORD(0)))

    def emit(height: int, width: int) -> None:
        emit_size(builder, height, width, (a, *steps, depth), reached, waiting=())

    with builder.if_else(is_full) as (full, other):
        with full:
            turns = builder.udiv(depth, WORD(_TURN))
            emit_size(builder, ROWS, _WIDTH, (a, *steps, turns), reached, _TURN, soon, waiting=())
        with other:
            emit_any_size(builder, rows, columns, emit, (ROWS, _WIDTH))
    with builder.if_then(builder.not_(is_whole)):
        copy_rows(builder, rows, columns, (*scratch_place, *places[2:]), _WIDTH)
