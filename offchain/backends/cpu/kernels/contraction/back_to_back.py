"""Blocks of rows that go through a product, a fused kernel, and perhaps another product."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.blocks import (
    SECOND_CACHE_BYTES,
    SPARE_BYTES,
    count_unpacked_rows,
    find_start,
    multiply_block,
    multiply_tiles,
)
from moot.offchain.backends.cpu.kernels.contraction.packing import pack, panel_bytes
from moot.offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    B_STEP_BYTES,
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
)
from moot.offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from moot.offchain.native.vectors import WORD

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_widen: Any = np.int64
"""Makes a number one of 64 bits, so that numba compiles its users for one type only."""

SCORES, MIDDLE = 1, 2
"""Buffers of the fused kernel whose rows are those of a block."""

LEFT, RIGHT, BLOCK = 1, 2, 4
"""Which factor of a product across is folded, and whether it is what the last product folds."""

_ACROSS = 2
"""Products across that a kernel has arguments for; a number of planning's would not be in the key
under which its machine code is kept."""

_DEPTH = 512
"""Steps of a product that are computed at a time: the panel of a few columns is then near."""

_GROUP = 8 * ROWS
"""Rows of a product across that are packed at a time."""


def count_scratch_floats(
    rows: int, shapes: Sequence[tuple[int, int]], widths: Sequence[int]
) -> int:
    """Return the floats of scratch memory for a block's rows and factors.

    Args:
        rows: of a block.
        shapes: columns and steps of each factor that is packed for all blocks.
        widths: the columns of products across, at most.
    """
    factors = sum(
        -(-columns // COLUMNS) * panel_bytes(steps, B_STEP_BYTES) for columns, steps in shapes
    )
    deepest = max(steps for _, steps in shapes)
    packed = -(-rows // ROWS) * panel_bytes(min(deepest, _DEPTH), A_STEP_BYTES)
    across = _GROUP // ROWS * panel_bytes(min(rows, _DEPTH), A_STEP_BYTES)
    across += -(-max(widths) // COLUMNS) * panel_bytes(min(rows, _DEPTH), B_STEP_BYTES)
    return (SPARE_BYTES + factors + max(packed, across)) // FLOAT_BYTES


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
            here = panels + column // COLUMNS * panel + k * B_STEP_BYTES
            multiply_tiles(
                rows,
                packed_a,
                unpacked,
                steps[:, column : column + width],
                here,
                panel,
                _widen(0),
                start + column * column_step,
                step,
                column_step,
                out[:, column:],
                width,
                steps[:, column + width : column + 2 * width],
                here + width // COLUMNS * panel,
            )
        start, step, column_step = out.ctypes.data, out.strides[0], FLOAT_BYTES


@subroutine
def _find_columns(ends: Integers, columns: int, unit: int, least: int) -> int:
    """How many columns of some rows have to be computed."""
    if not ends.size:
        return columns
    furthest = 0
    for end in ends:  # numba takes most of a second to compile `ends.max()`
        furthest = max(furthest, end)
    return min(columns, -(-(furthest + least) // unit) * unit)


@subroutine
def _find_buffers(
    pointers: Integers,
    addresses: Integers,
    parts: Integers,
    scores: Floats,
    middle: Floats,
    begin: int,
) -> None:
    """Find the buffers of the fused kernel, whose first rows some would have before the block's."""
    for i in range(parts.size):
        part = scores if parts[i] == SCORES else middle
        address = part.ctypes.data - begin * part.strides[0]
        pointers[i] = address if parts[i] else addresses[i]


@subroutine
def _pack_matrix(b: Floats, z: int, held: int, panels: int) -> None:
    """Pack a right factor, unless it is that of the batch before."""
    if b.shape[2] and (held < 0 or (z != held and b.strides[0] != 0)):
        pack(b[z].T, COLUMNS, B_STEP_BYTES, panels)


@subroutine
def _has_nan(column: Floats) -> bool:
    found = 0
    for x in column:
        found += np.isnan(x)
    return found > 0


@subroutine
def _copy(source: Floats, target: Floats) -> None:
    for row in range(target.shape[0]):
        for column in range(target.shape[1]):
            target[row, column] = source[row, column]


@subroutine
def _add_across(
    a: Floats, b: Floats, out: Floats, kind: int, folded: Floats, columns: int, scratch: Floats
) -> None:
    """Add the terms of a block's rows to a product across, of the first columns.

    Args:
        a: (M, K) the left factor for the block's K rows.
        b: (K, N) the right one.
        out: (M, N) the sums so far.
        kind: which of them is folded, and whether it is `folded`.
        folded: (K, columns at least).
        columns: which are there.
        scratch: as `count_scratch_floats` has it.
    """
    left = folded.T if kind == LEFT + BLOCK else a
    right = folded if kind == RIGHT + BLOCK else b
    target = out
    if kind & LEFT:
        left, target = left[:columns], target[:columns]
    else:
        right, target = right[:, :columns], target[:, :columns]
    multiply_block(left, right, target, target, scratch, _GROUP, _DEPTH)


@kernel(
    *[reads(types.float32, 3, "A")] * 5,
    writes(types.float32, 3, "A"),
    *[*[reads(types.float32, 3, "A")] * 3, writes(types.float32, 3, "A")] * 2,
    *[writes(types.float32, 2, "A")] * 2,
    reads(types.float32, 2, "A"),
    writes(types.float32, 1),
    writes(types.int64, 1),
    *[reads(types.int64, 1)] * 3,
    *[types.int64] * 11,
)
def compute_blocks(
    a: Floats,
    b: Floats,
    init: Floats,
    next_b: Floats,
    next_init: Floats,
    out: Floats,
    a_across: Floats,
    b_across: Floats,
    init_across: Floats,
    out_across: Floats,
    a_beside: Floats,
    b_beside: Floats,
    init_beside: Floats,
    out_beside: Floats,
    scores: Floats,
    middle: Floats,
    folds: Floats,
    scratch: Floats,
    pointers: Integers,
    addresses: Integers,
    parts: Integers,
    ends: Integers,
    unit: int,
    least: int,
    is_whole: int,
    kind_across: int,
    kind_beside: int,
    region: int,
    region_scratch: int,
    top: int,
    block: int,
    first: int,
    stop: int,
) -> None:
    """Compute the blocks of rows from `first` to `stop`, counted along rows, then batches.

    The right factors of a batch are packed once for all of its blocks. Without products across the
    last rows come first: blocks without tails, which take longer.

    Args:
        a: (B, M, K) the first product's left factor.
        b: (B, K, N) its right factor.
        init: (B, M, N) what its sums start from.
        next_b: (B, N, L) the last product's right factor; L is 0 if there is no such product.
        next_init: (B, M, L) what its sums start from.
        out: (B, M, L) its result, with contiguous rows.
        a_across: (B, N, M) or (B, P, M) the left factor of a product across, which folds the M rows
            of (B, M, N) matrices; it is not read where that is what the last product folds.
        b_across: (B, M, P) or (B, M, N) its right factor, likewise.
        init_across: what its sums start from, which has the shape of its result.
        out_across: (B, N, P) or (B, P, N) its result, with contiguous rows; P is 0 for none.
        a_beside: the same of another product across,
        b_beside: likewise,
        init_beside: likewise,
        out_beside: likewise.
        scores: (block, N) room for the first product's result, with contiguous rows.
        middle: (block, N) room for what the last product folds, or (R, N) that of all rows.
        folds: the same memory, to be read, so that numba compiles products of one type of factors.
        scratch: room for packed panels, `count_scratch_floats`.
        pointers: room for the addresses of the fused kernel's buffers.
        addresses: those addresses, where all rows are there.
        parts: for each of them `SCORES` or `MIDDLE` if it has only the rows of a block, 0 if not.
        ends: (R,) in how many columns of each row something is to be computed; what is after them
            adds zeros to the products, and equals the column after them where `middle` has all
            rows. Empty if all is to be computed.
        unit: of so many columns a whole number is computed;
        least: at least so many of them come after these.
        is_whole: whether `middle` has all rows.
        kind_across: which factor of that product is folded, and whether it is `middle`.
        kind_beside: likewise.
        region: address of the fused kernel.
        region_scratch: address of its scratch memory.
        top: the number, among all rows, of the first row of a.
        block: rows of a block.
        first: the first block to compute; of the first rows if there are products across.
        stop: the first not to.
    """
    m, n = a.shape[1], b.shape[2]
    down, held, touched = -(-m // block), _widen(-1), 0
    panel, next_panel = panel_bytes(b.shape[1], B_STEP_BYTES), panel_bytes(n, B_STEP_BYTES)
    panels = _widen(scratch.ctypes.data)
    next_panels = panels + -(-n // COLUMNS) * panel
    used = -(-n // COLUMNS) * panel + -(-out.shape[2] // COLUMNS) * next_panel
    room = scratch[used // FLOAT_BYTES :]
    is_across = out_across.size + out_beside.size > 0
    for number in range(first, stop):
        z, place = number // down, number % down
        i = (place if is_across else down - 1 - place) * block
        _pack_matrix(b, z, held, panels)
        _pack_matrix(next_b, z, held, next_panels)
        if z != held:
            touched = 0
            _copy(init_across[z], out_across[z])
            _copy(init_beside[z], out_beside[z])
        held = z
        end_i = min(i + block, m)
        begin, end = top + z * m + i, top + z * m + end_i
        columns = max(_find_columns(ends[begin:end], n, unit, least), touched)
        last, start = out[z, i:end_i], next_init[z, i:end_i]
        folded = folds[begin:end] if is_whole else folds[: end_i - i]
        _find_buffers(pointers, addresses, parts, scores, middle, begin)
        while True:
            here, starts = scores[: end_i - i, :columns], init[z, i:end_i, :columns]
            _multiply_rows(a[z, i:end_i], b[z, :, :columns], panels, panel, starts, here, room)
            _call_region(region, pointers.ctypes.data, begin, end, region_scratch, columns)
            if out.shape[2]:
                rows, factor = folded[:, :columns], next_b[z, :columns]
                _multiply_rows(rows, factor, next_panels, next_panel, start, last, room)
            if columns == n or not (
                _has_negative_zero(last) or (is_across and _has_nan(folded[:, columns - 1]))
            ):
                break
            columns = n
        if columns < n and is_whole:
            _fill(middle[begin:end], columns)
        touched = columns if is_across else 0
        for beside in range(_ACROSS):
            left = a_beside[z] if beside else a_across[z]
            right = b_beside[z] if beside else b_across[z]
            target = out_beside[z] if beside else out_across[z]
            kind = kind_beside if beside else kind_across
            if kind:
                left, right = left[:, i:end_i], right[i:end_i]
                _add_across(left, right, target, kind, folded, columns, room)
