"""Blocks of rows that go through a product, a fused kernel, and perhaps another product."""

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from offchain.backends.cpu.kernels.contraction.blocks import multiply_block
from offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES
from offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from offchain.native.vectors import WORD

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

SCORES, MIDDLE = 1, 2
"""Buffers of the fused kernel whose rows are those of a block."""


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
def _find_columns(ends: Integers, columns: int, unit: int) -> int:
    """How many columns of some rows have to be computed."""
    return min(columns, ends.max() + unit) if ends.size else columns


@kernel(
    *[reads(types.float32, 3, "A")] * 5,
    writes(types.float32, 3, "A"),
    *[writes(types.float32, 2)] * 2,
    writes(types.float32, 1),
    writes(types.int64, 1),
    *[reads(types.int64, 1)] * 3,
    *[types.int64] * 12,
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
    group: int,
    depth: int,
    next_depth: int,
    region: int,
    region_scratch: int,
    top: int,
    block: int,
    first: int,
    stop: int,
) -> None:
    """Compute the blocks of rows from `first` to `stop`, counted along batches, last rows first.

    So a mask that batches share is near when it comes again, and blocks without tails, which take
    longer, come before others, so that threads end at the same time.

    Args:
        a: (B, M, K) the first product's left factor.
        b: (B, K, N) its right factor.
        init: (B, M, N) what its sums start from.
        next_b: (B, N, L) the last product's right factor; L is 0 if there is no such product.
        next_init: (B, M, L) what its sums start from.
        out: (B, M, L) its result, with contiguous rows.
        scores: (block, N) room for the first product's result.
        middle: (block, N) room for what the last product folds, or (R, N) that of all rows.
        scratch: room for packed panels, as `multiply_blocks` has it.
        pointers: room for the addresses of the fused kernel's buffers.
        addresses: those addresses, where all rows are there.
        parts: for each of them `SCORES` or `MIDDLE` if it has only the rows of a block, 0 if not.
        ends: (R,) in how many columns of each row something is to be computed; a column after them
            stands for all others. Empty if that is all.
        unit: so many columns after these are computed.
        is_skipped: whether the last product may leave the other ones out where no sum is -0.
        is_whole: whether `middle` has all rows.
        group: rows of a that are packed at a time.
        depth: steps of the first product that are computed at a time.
        next_depth: steps of the last product that are computed at a time.
        region: address of the fused kernel.
        region_scratch: address of its scratch memory.
        top: the number, among all rows, of the first row of a.
        block: rows of a block.
        first: the first block to compute.
        stop: the first not to.
    """
    batch, m, n = a.shape[0], a.shape[1], b.shape[2]
    down = -(-m // block)
    for number in range(first, stop):
        z, i = number % batch, (down - 1 - number // batch) * block
        end_i = min(i + block, m)
        begin, end = top + z * m + i, top + z * m + end_i
        columns = _find_columns(ends[begin:end], n, unit)
        here = scores[: end_i - i, :columns]
        rows = a[z, i:end_i], b[z, :, :columns], init[z, i:end_i, :columns]
        multiply_block(*rows, here, scratch, group, depth)
        folded = middle[begin:end] if is_whole else middle[: end_i - i]
        skipped = begin * n * FLOAT_BYTES
        for place in range(parts.size):
            part = scores if parts[place] == SCORES else middle
            address = part.ctypes.data - skipped
            pointers[place] = address if parts[place] else addresses[place]
        _call_region(region, pointers.ctypes.data, begin, end, region_scratch, columns)
        if columns < n and (is_whole or not is_skipped):
            _fill(folded, columns)
        if not out.shape[2]:
            continue
        steps = columns if is_skipped else n
        last, start = out[z, i:end_i], next_init[z, i:end_i]
        multiply_block(
            folded[:, :steps], next_b[z, :steps], start, last, scratch, group, next_depth
        )
        if steps < n and _has_negative_zero(last):
            if not is_whole:
                _fill(folded, columns)
            rest = folded[:, steps:], next_b[z, steps:]
            multiply_block(*rest, last, last, scratch, group, next_depth)
