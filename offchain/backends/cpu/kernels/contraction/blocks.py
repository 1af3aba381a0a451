"""The blocks of a matrix product: packed or read in place, and multiplied tile by tile."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.packing import pack, panel_bytes
from moot.offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    B_STEP_BYTES,
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
    TURN,
    multiply_tile,
)
from moot.offchain.native.compiled import Kernel, kernel, reads, subroutine, writes
from moot.offchain.native.vectors import CACHE_LINE_BYTES, LANES, VECTOR_BYTES

Floats = npt.NDArray[np.float32]

SPARE_BYTES = 4 * VECTOR_BYTES
"""Bytes of scratch memory beyond the packed panels: the columns of any tile."""

_SPARE_COLUMNS = SPARE_BYTES // FLOAT_BYTES

_REUSES_OF_A = 512
_REUSES_OF_B = 64
"""Columns, or rows, from which packing an operand costs little beside multiplying it."""

SECOND_CACHE_BYTES = 2**18
"""Bytes that surely stay in the second-level cache, beside other things."""

CONFLICTING_BYTES = 2048
"""Rows whose distance is a multiple of this drive each other out of the first-level cache."""


def make_kernel(multiply: Callable[..., None]) -> Kernel:
    """Return a kernel that computes blocks of a product, each by a subroutine.

    Args:
        multiply: computes one block: of a, b, init and out, given scratch memory and the first two
            of the kernel's numbers.
    """

    @kernel(
        *[reads(types.float32, 3, "A")] * 3,
        writes(types.float32, 3, "A"),
        writes(types.float32, 1),
        *[types.int64] * 6,
    )
    def multiply_blocks(
        a: Floats,
        b: Floats,
        init: Floats,
        out: Floats,
        scratch: Floats,
        group: int,
        depth: int,
        block_m: int,
        block_n: int,
        first: int,
        stop: int,
    ) -> None:
        """Compute blocks, which are counted along rows, then columns, then batches.

        Args:
            a: (B, M, K).
            b: (B, K, N).
            init: (B, M, N).
            out: (B, M, N) with contiguous rows.
            scratch: room for packed panels, and `SPARE_BYTES`.
            group: rows of a, or panels of columns of b, that are packed at a time.
            depth: steps of k that are computed at a time.
            block_m: rows of a block.
            block_n: columns of a block.
            first: the first block to compute.
            stop: the first not to.
        """
        _, m, n = out.shape
        across, down = -(-n // block_n), -(-m // block_m)
        for block in range(first, stop):
            z = block // across // down
            i, j = block % down * block_m, block // down % across * block_n
            end_i, end_j = min(i + block_m, m), min(j + block_n, n)
            factors = a[z, i:end_i], b[z, :, j:end_j]
            places = init[z, i:end_i, j:end_j], out[z, i:end_i, j:end_j]
            multiply(*factors, *places, scratch, group, depth)

    return multiply_blocks


@subroutine
def multiply_block(
    a: Floats, b: Floats, init: Floats, out: Floats, scratch: Floats, group: int, depth: int
) -> None:
    """Compute one block, so many rows and steps at a time.

    Args:
        a: (M, K).
        b: (K, N).
        init: (M, N).
        out: (M, N) with contiguous rows.
        scratch: room for the packed panels of a group of rows of a and of all columns of b, and
            `SPARE_BYTES`.
        group: rows of a that are packed at a time.
        depth: steps of k that are computed at a time.
    """
    packed = scratch.ctypes.data + SPARE_BYTES
    start, step, column_step = find_start(init, out, scratch)
    for k in range(0, a.shape[1], depth):
        end_k = min(k + depth, a.shape[1])
        parts = a[:, k:end_k], b[k:end_k], b[end_k : min(end_k + depth, a.shape[1])]
        _multiply_steps(*parts, start, step, column_step, out, packed, group)
        start, step, column_step = out.ctypes.data, out.strides[0], FLOAT_BYTES


multiply_blocks = make_kernel(multiply_block)
"""Computes blocks of a product whose factors are packed or read where they lie."""


@subroutine
def find_start(init: Floats, out: Floats, scratch: Floats) -> tuple[int, int, int]:
    """Find where sums start from, so that tiles can read it.

    Args:
        init: (M, N), any strides.
        out: (M, N), which is written to if need be.
        scratch: `SPARE_BYTES` at least, likewise.

    Returns:
        The address of the first element, and the bytes between rows and between columns: those of
        a float, or 0 where one row of a tile's width serves for all.
    """
    step, column_step = init.strides
    if column_step == FLOAT_BYTES or out.shape[1] == 1:
        return init.ctypes.data, step, FLOAT_BYTES
    if step == 0 and column_step == 0:
        for column in range(_SPARE_COLUMNS):  # numba takes seconds to compile `scratch[:…] = …`
            scratch[column] = init[0, 0]
        return scratch.ctypes.data, step, column_step
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[row, column] = init[row, column]
    return out.ctypes.data, out.strides[0], FLOAT_BYTES


@subroutine
def count_unpacked_rows(a: Floats, n: int) -> int:
    """How many rows of a to read where they lie; a last panel of odd height has to be packed."""
    rows, depth = len(a), a.shape[1]
    row_step, step = a.strides
    if row_step == FLOAT_BYTES:
        is_slow = depth * step > SECOND_CACHE_BYTES
    else:
        is_slow = row_step % CONFLICTING_BYTES == 0
    if n > _REUSES_OF_A or (is_slow and n > LANES):
        return 0
    return rows if rows % 2 == 0 else rows - rows % ROWS


@subroutine
def _count_unpacked_columns(b: Floats, m: int) -> int:
    """How many columns of b to read where they lie; a last panel of part vectors is packed.

    A tile reads a few columns of each row. Where no near cache holds all rows, this is slow even if
    it is done once: a row is in another page, and packing reads rows from end to end.
    """
    columns: int = b.shape[1]
    is_near = b.size * FLOAT_BYTES <= SECOND_CACHE_BYTES
    if b.strides[1] != FLOAT_BYTES or m > _REUSES_OF_B or not is_near:
        return 0
    return columns if columns % COLUMNS == LANES else columns - columns % COLUMNS


@subroutine
def _multiply_steps(
    a: Floats,
    b: Floats,
    later_b: Floats,
    start: int,
    start_step: int,
    start_column_step: int,
    out: Floats,
    scratch: int,
    group: int,
) -> None:
    """Compute some steps of a block from the sums at `start`, all equal if the column step is 0.

    `later_b` are the steps of b after these.
    """
    (m, depth), n = a.shape, b.shape[1]
    b_panel = panel_bytes(depth, B_STEP_BYTES)
    unpacked_n = _count_unpacked_columns(b, m)
    panels = -(-(n - unpacked_n) // COLUMNS)
    # Columns are multiplied while they are near; a few may be read where they lie.
    near_panels = max(1, SECOND_CACHE_BYTES // b_panel)
    width = near_panels * COLUMNS if unpacked_n == 0 else n
    # Where all rows are one group, each panel makes room for the next one.
    kept_b = b_panel if m > group else 0
    packed_b, packed_a = scratch, scratch + b_panel * panels
    for first in range(0, m, group):
        rows = a[first : min(first + group, m)]
        unpacked_m = count_unpacked_rows(rows, n)
        pack(rows[unpacked_m:], ROWS, A_STEP_BYTES, packed_a)
        for first_column in range(0, n, width):
            columns = b[:, first_column : min(first_column + width, n)]
            here = packed_b + first_column // COLUMNS * kept_b
            if first == 0:
                pack(columns[:, unpacked_n:].T, COLUMNS, B_STEP_BYTES, here)
            end = min(first_column + 2 * width, n)
            following, there = b[:, first_column + width : end], here + near_panels * b_panel
            if first_column + width >= n:  # the next group's first ones, or those of later steps
                following, there = b[:, :width], packed_b
                if first + group >= m:
                    following, there = later_b[:, :width], 0
            elif first == 0:
                there = 0
            multiply_tiles(
                rows,
                packed_a,
                unpacked_m,
                columns,
                here,
                b_panel,
                unpacked_n,
                start + first * start_step + first_column * start_column_step,
                start_step,
                start_column_step,
                out[first:, first_column:],
                width,
                following,
                there,
            )


@subroutine
def find_lines(following: Floats) -> tuple[int, int, int, int]:
    """Find the lines of the cache in which columns lie.

    Returns:
        The address of the first one, the lines of each row, how many rows of them there are, and
        the bytes between rows.
    """
    depth, columns = following.shape
    step, column_step = following.strides
    if step == FLOAT_BYTES:
        lines = max(1, -(-depth * FLOAT_BYTES // CACHE_LINE_BYTES))
        return following.ctypes.data, lines, columns if depth else 0, column_step
    lines = max(1, -(-columns * FLOAT_BYTES // CACHE_LINE_BYTES))
    return following.ctypes.data, lines, depth if columns else 0, step


@subroutine
def _plan_ahead(following: Floats, packed: int, b_panel: int) -> tuple[int, int, int, int]:
    """Find the lines of the cache in which columns lie, or their panels if these are there.

    Returns:
        The address of the first one, the lines of each row, how many rows of them there are, and
        the bytes between rows.
    """
    columns = following.shape[1]
    if packed:
        size = -(-columns // COLUMNS) * b_panel
        return packed, max(1, size // CACHE_LINE_BYTES), min(1, columns), 0
    return find_lines(following)


@subroutine
def multiply_tiles(
    a: Floats,
    packed_a: int,
    unpacked_m: int,
    b: Floats,
    packed_b: int,
    b_panel: int,
    unpacked_n: int,
    start: int,
    start_step: int,
    start_column_step: int,
    out: Floats,
    near_columns: int,
    following: Floats,
    packed: int,
) -> None:
    """Compute a product tile by tile, of factors in panels or where they lie.

    Args:
        a: (M, K).
        packed_a: address of its panels, from row `unpacked_m` on.
        unpacked_m: rows that are read where they lie.
        b: (K, N).
        packed_b: address of its panels, from column `unpacked_n` on.
        b_panel: bytes between these.
        unpacked_n: columns that are read where they lie.
        start: address of what the sums start from.
        start_step: bytes between its rows.
        start_column_step: bytes between its columns, 0 if all tiles start from the same.
        out: (M, N) or more, with contiguous rows.
        near_columns: columns of b that a near cache holds; if these are all, each row of tiles
            reads them, one after the other.
        following: (K, F) the columns of b that are needed next, which are asked for meanwhile;
            then lower rows of the result are.
        packed: the address of their panels, 0 if they are not there yet.
    """
    (m, depth), n = a.shape, b.shape[1]
    a_panel = panel_bytes(depth, A_STEP_BYTES)
    down, across = -(-m // ROWS), -(-n // COLUMNS)
    soon, lines, rows_of_lines, row_step = _plan_ahead(following, packed, b_panel)
    turns, out_lines = depth // TURN, -(-n * FLOAT_BYTES // CACHE_LINE_BYTES)
    for tile in range(down * across):
        if n <= near_columns:
            i, j = tile // across * ROWS, tile % across * COLUMNS
        else:
            i, j = tile % down * ROWS, tile // down * COLUMNS
        at_a, a_row_step, a_step = a.ctypes.data + i * a.strides[0], *a.strides
        if i >= unpacked_m:
            at_a = packed_a + (i - unpacked_m) // ROWS * a_panel
            a_row_step, a_step = FLOAT_BYTES, A_STEP_BYTES
        at_b, b_step = b.ctypes.data + j * FLOAT_BYTES, b.strides[0]
        if j >= unpacked_n:
            at_b, b_step = packed_b + (j - unpacked_n) // COLUMNS * b_panel, B_STEP_BYTES
        row, line = tile * turns // lines, tile * turns % lines
        if row < rows_of_lines:
            ahead, end, step = soon + row * row_step + line * CACHE_LINE_BYTES, lines, row_step
        elif i + ROWS + turns // out_lines <= m:
            line, end, step = 0, out_lines, out.strides[0]
            ahead = out.ctypes.data + (i + ROWS) * step
        else:
            ahead, line, end, step = at_b, 0, 1, 0
        multiply_tile(
            min(ROWS, m - i),
            min(COLUMNS, n - j),
            at_a,
            a_row_step,
            a_step,
            at_b,
            b_step,
            depth,
            start + i * start_step + j * start_column_step,
            start_step,
            out.ctypes.data + i * out.strides[0] + j * FLOAT_BYTES,
            out.strides[0],
            ahead,
            line,
            end,
            step - (end - 1) * CACHE_LINE_BYTES,
        )
