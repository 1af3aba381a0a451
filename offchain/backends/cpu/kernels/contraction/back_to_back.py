"""Blocks of rows that go through a product, a fused kernel, and perhaps another product."""

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from offchain.backends.cpu.kernels.contraction.blocks import (
    SECOND_CACHE_BYTES,
    SPARE_BYTES,
    count_unpacked_rows,
    find_start,
    multiply_tiles,
)
from offchain.backends.cpu.kernels.contraction.packing import pack, panel_bytes
from offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    B_STEP_BYTES,
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
)
from offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from offchain.native.vectors import LANES, WORD

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

SCORES, MIDDLE = 1, 2
"""Buffers of the fused kernel whose rows are those of a block."""

_DEPTH = 512
"""Steps of a product that are computed at a time: the panel of a few columns is then near."""


def count_scratch_floats(rows: int, *shapes: tuple[int, int]) -> int:
    """Return the floats of scratch memory for a block's rows and factors.

    Args:
        rows: of a block.
        *shapes: columns and steps of each factor.
    """
    factors = sum(
        -(-columns // COLUMNS) * -(-steps // LANES) * LANES * B_STEP_BYTES
        for columns, steps in shapes
    )
    depth = max(min(-(-steps // LANES) * LANES, _DEPTH) for _, steps in shapes)
    return (SPARE_BYTES + factors + -(-rows // ROWS) * depth * A_STEP_BYTES) // FLOAT_BYTES


@emitted(types.void, *[types.intp] * 6)
def _call_region(builder: ir.IRBuilder, region: ir.Value, *words: ir.Value) -> None:
    """Call a fused kernel by its address: pointers, first row, stop, scratch, columns."""
    signature = ir.FunctionType(ir.VoidType(), [WORD] * len(words))
    builder.call(builder.inttoptr(region, signature.as_pointer()), words)


@subroutine
def _fill(rows: Floats, columns: int) -> None:
    """Copy the last element before a column of each row to that column and all after it."""
    for row in rows:
        row[columns:] = row[columns - 1]


@subroutine
def _has_negative_zero(rows: Floats) -> bool:
    found = 0
    for row in rows:
        for i in range(row.size):
            found += row[i] == 0 and np.signbit(row[i])
    return found > 0


@subroutine
def _multiply_rows(
    a: Floats, b: Floats, panels: int, panel: int, init: Floats, out: Floats, scratch: Floats
) -> None:
    """Compute a product of some rows with a factor all of whose columns are packed.

    Args:
        a: (M, K), any strides.
        b: (K, N), any strides, which is in panels.
        panels: address of the first step of these.
        panel: bytes between them.
        init: (M, N).
        out: (M, N) with contiguous rows.
        scratch: room for the rows of a in panels, and `SPARE_BYTES`.
    """
    n, packed_a = b.shape[1], scratch.ctypes.data + SPARE_BYTES
    start, step, column_step = find_start(init, out, scratch)
    for k in range(0, a.shape[1], _DEPTH):
        rows, steps = a[:, k : k + _DEPTH], b[k : k + _DEPTH]
        unpacked = count_unpacked_rows(rows, n)
        pack(rows[unpacked:], ROWS, A_STEP_BYTES, packed_a)
        width = max(1, SECOND_CACHE_BYTES // (rows.shape[1] * B_STEP_BYTES)) * COLUMNS
        for column in range(0, n, width):
            multiply_tiles(
                rows,
                packed_a,
                unpacked,
                steps[:, column : column + width],
                panels + column // COLUMNS * panel + k * B_STEP_BYTES,
                panel,
                0,
                start + column * column_step,
                step,
                column_step,
                out[:, column:],
                width,
            )
        start, step, column_step = out.ctypes.data, out.strides[0], FLOAT_BYTES


@subroutine
def _find_columns(ends: Integers, columns: int, unit: int) -> int:
    """How many columns of some rows have to be computed."""
    return min(columns, ends.max() + unit) if ends.size else columns


@kernel(
    *[reads(types.float32, 3, "A")] * 5,
    writes(types.float32, 3, "A"),
    *[writes(types.float32, 2, "A")] * 2,
    writes(types.float32, 1),
    writes(types.int64, 1),
    *[reads(types.int64, 1)] * 3,
    *[types.int64] * 9,
)
def compute_blocks(
    a: Floats,
    b: Floats,
    init: Floats,
    next_b: Floats,
    next_init: Floats,
    out: Floats,
    scores: Floats,
    middle: Floats,
    scratch: Floats,
    pointers: Integers,
    addresses: Integers,
    parts: Integers,
    ends: Integers,
    unit: int,
    is_skipped: int,
    is_whole: int,
    region: int,
    region_scratch: int,
    top: int,
    block: int,
    first: int,
    stop: int,
) -> None:
    """Compute the blocks of rows from `first` to `stop`, counted along rows, the last ones first.

    The right factors of a batch are packed once for all of its blocks. Blocks without tails, which
    take longer, come before others.

    Args:
        a: (B, M, K) the first product's left factor.
        b: (B, K, N) its right factor.
        init: (B, M, N) what its sums start from.
        next_b: (B, N, L) the last product's right factor; L is 0 if there is no such product.
        next_init: (B, M, L) what its sums start from.
        out: (B, M, L) its result, with contiguous rows.
        scores: (block, N) room for the first product's result, with contiguous rows.
        middle: (block, N) room for what the last product folds, or (R, N) that of all rows.
        scratch: room for packed panels, `count_scratch_floats`.
        pointers: room for the addresses of the fused kernel's buffers.
        addresses: those addresses, where all rows are there.
        parts: for each of them `SCORES` or `MIDDLE` if it has only the rows of a block, 0 if not.
        ends: (R,) in how many columns of each row something is to be computed; a column after them
            stands for all others. Empty if that is all.
        unit: so many columns after these are computed.
        is_skipped: whether the last product may leave the other ones out where no sum is -0.
        is_whole: whether `middle` has all rows.
        region: address of the fused kernel.
        region_scratch: address of its scratch memory.
        top: the number, among all rows, of the first row of a.
        block: rows of a block.
        first: the first block to compute.
        stop: the first not to.
    """
    m, n, columns_after = a.shape[1], b.shape[2], out.shape[2]
    down, held = -(-m // block), -1
    panel, next_panel = panel_bytes(b.shape[1], B_STEP_BYTES), panel_bytes(n, B_STEP_BYTES)
    panels = scratch.ctypes.data
    next_panels = panels + -(-n // COLUMNS) * panel
    used = -(-n // COLUMNS) * panel + -(-columns_after // COLUMNS) * next_panel
    room = scratch[used // FLOAT_BYTES :]
    for number in range(first, stop):
        z, i = number // down, (down - 1 - number % down) * block
        if held < 0 or (z != held and b.strides[0] != 0):
            pack(b[z].T, COLUMNS, B_STEP_BYTES, panels)
        if columns_after and (held < 0 or (z != held and next_b.strides[0] != 0)):
            pack(next_b[z].T, COLUMNS, B_STEP_BYTES, next_panels)
        held = z
        end_i = min(i + block, m)
        begin, end = top + z * m + i, top + z * m + end_i
        columns = _find_columns(ends[begin:end], n, unit)
        here, starts = scores[: end_i - i, :columns], init[z, i:end_i, :columns]
        _multiply_rows(a[z, i:end_i], b[z, :, :columns], panels, panel, starts, here, room)
        folded = middle[begin:end] if is_whole else middle[: end_i - i]
        for place in range(parts.size):
            part = scores if parts[place] == SCORES else middle
            address = part.ctypes.data - begin * part.strides[0]
            pointers[place] = address if parts[place] else addresses[place]
        _call_region(region, pointers.ctypes.data, begin, end, region_scratch, columns)
        if columns < n and (is_whole or not is_skipped):
            _fill(folded, columns)
        if not columns_after:
            continue
        steps = columns if is_skipped else n
        last, start = out[z, i:end_i], next_init[z, i:end_i]
        factor = next_b[z, :steps]
        _multiply_rows(folded[:, :steps], factor, next_panels, next_panel, start, last, room)
        if steps < n and _has_negative_zero(last):
            if not is_whole:
                _fill(folded, columns)
            left = next_panels + steps * B_STEP_BYTES
            rest = folded[:, steps:], next_b[z, steps:]
            _multiply_rows(*rest, left, next_panel, last, last, room)
