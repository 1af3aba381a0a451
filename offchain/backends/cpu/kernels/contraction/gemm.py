"""Batched matrix products, every element one fold of fused multiply-adds in ascending order.

out[m, n] starts as init[m, n] and becomes fma(a[m, k], b[k, n], out[m, n]) for k = 0, 1, 2, ... A
blocked product computes just that as long as it does not split k among accumulators, so the order
costs no speed. As in BLIS (Van Zee and van de Geijn, 2015), the inner loop keeps a tile of the
result in registers (`tile.py`) and reads blocks of both operands, packed into panels
(`packing.py`) unless they can as well be read where they lie (`blocks.py`); those of large products
always are (`wide.py`). The tile goes back to memory only between blocks of k.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction import thin, wide
from moot.offchain.backends.cpu.kernels.contraction.blocks import SPARE_BYTES, multiply_blocks
from moot.offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    B_STEP_BYTES,
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
)
from moot.offchain.native import vectors
from moot.offchain.native.compiled import Kernel, emitted, kernel, reads, writes
from moot.offchain.native.machine import get_second_cache_bytes
from moot.offchain.native.vectors import LANES, NAN

Floats = npt.NDArray[np.float32]

_DEPTH = 1024
"""Steps of k in a block at most: a panel of b then stays in the second-level cache."""

_DEPTH_OF_ROWS = 512
"""The same where b is asked for row by row: pieces of more rows, which lie a whole number of pages
apart, drive each other out of that cache."""

_GROUP_BYTES = 9 * 2**16
"""Packed rows of a that are multiplied with all columns of a block: more than half that cache."""

_BLOCK = 2048
"""Columns of a block at most: its part of b, packed, then stays in the third-level cache."""

_PART = 768
"""Rows or columns of a matrix that are worth their own block, packing included."""

_PARTS_PER_THREAD = 4
_WIDE_PARTS_PER_THREAD = 16

_LEAST_ROWS, _LEAST_COLUMNS, _LEAST_STEPS = 65, 513, 64
"""The size of a product from which its rows stream past packed columns; a near cache holds fewer
columns, and rows need not be packed for them."""

_NEAR_BYTES = get_second_cache_bytes() * 5 // 16
"""Packed columns that rows stream past: so much of the second-level cache is left for the columns
that come next, the result and the rows."""

_MOST_ROWS = 1024
"""Rows that are packed for all columns at most: a far cache then holds their panels."""

GRAIN = 2**20
"""Multiply-adds that make another thread worth its start."""

_FEW_ROWS = 64
"""Rows up to which turning the result costs less than turning b."""


def fold_partials(a: Floats, b: Floats, init: float | np.float32) -> Floats:
    """Every accumulator of one element: `init`, then fma(a[k], b[k], accumulator) for each k.

    Args:
        a: (K,) float32, any stride.
        b: (K,) float32, any stride.
        init: exact in float32.

    Returns:
        (K + 1,) float32.
    """
    partials = np.empty(a.size + 1, np.float32)
    partials[0] = init
    _fold(a, b, partials)
    partials[np.isnan(partials)] = NAN
    return partials


def is_thin(m: int, b_steps: tuple[int, ...]) -> bool:
    """Whether packing b would cost more than multiplying it."""
    if b_steps[2] == FLOAT_BYTES:
        return m <= thin.MOST_ROWS
    return b_steps[1] == FLOAT_BYTES and m <= thin.MOST_ROWS_IF_TURNED


def is_better_turned(m: int, n: int, b_steps: tuple[int, ...]) -> bool:
    """Whether the product of the turned operands is faster, its result turned back included."""
    if n <= thin.MOST_ROWS:
        return m > n
    is_turned = b_steps[1] == FLOAT_BYTES != b_steps[2]
    return is_turned and thin.MOST_ROWS_IF_TURNED < m <= _FEW_ROWS and 2 * m <= n


def _count(items: int, size: int) -> int:
    return -(-items // size) if items else 0


def _divide(items: int, most: int, unit: int) -> int:
    """The size of equal parts of at most about `most` items, a multiple of `unit`."""
    return _count(_count(items, _count(items, most)), unit) * unit


class Division(NamedTuple):
    """The division of a product into blocks.

    Attributes:
        multiply: computes some of them.
        group: rows, or panels of columns, that are packed at a time.
        depth: steps of k that are computed at a time.
        block_m: rows of a block.
        block_n: columns of a block.
        blocks: how many there are.
        grain: how many are worth another thread.
        scratch_floats: scratch memory of each thread.
    """

    multiply: Kernel
    group: int
    depth: int
    block_m: int
    block_n: int
    blocks: int
    grain: int
    scratch_floats: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The arguments of the kernel after the scratch memory."""
        return self.group, self.depth, self.block_m, self.block_n


@lru_cache(1024)
def divide(
    batch: int, m: int, n: int, k: int, threads: int, *, is_turned: bool = False
) -> Division:
    """Return how to divide a product of matrices of m rows, n columns and k steps.

    In each column of b, the steps lie side by side if it is turned.
    """
    is_wide = m >= _LEAST_ROWS and n >= _LEAST_COLUMNS and k >= _LEAST_STEPS
    if is_wide:
        height, width, most_rounds = wide.ROWS, wide.COLUMNS, _WIDE_PARTS_PER_THREAD
        block_m, block_n = _divide(m, _MOST_ROWS, height), n
    else:
        height, width, most_rounds = ROWS, COLUMNS, _PARTS_PER_THREAD
        block_m, block_n = m, _divide(n, _BLOCK, width)
    if threads > 1 and batch * m * n * k >= 2 * GRAIN and batch < _PARTS_PER_THREAD * threads:
        rounds = max(1, min(most_rounds, max(m, n) // (_PART * threads)))
        parts = rounds * threads if batch == 1 else _count(_PARTS_PER_THREAD * threads, batch)
        if m >= n and not (is_wide and n >= parts * _LEAST_COLUMNS):
            block_m = min(block_m, _divide(m, _count(m, parts), height))
        else:
            block_n = min(block_n, _divide(n, _count(n, parts), width))
    if is_wide:
        group, depth, scratch = _plan_wide_block(block_m, block_n, k)
    else:
        most = _DEPTH if is_turned else _DEPTH_OF_ROWS
        group, depth, scratch = plan_block(block_m, block_n, k, most)
    return Division(
        multiply=wide.multiply_wide_blocks if is_wide else multiply_blocks,
        group=group,
        depth=depth,
        block_m=block_m,
        block_n=block_n,
        blocks=batch * _count(m, block_m) * _count(n, block_n),
        grain=max(1, GRAIN // (block_m * block_n * k)),
        scratch_floats=scratch,
    )


def _plan_wide_block(m: int, n: int, k: int) -> tuple[int, int, int]:
    """Return how to compute a block of a product of many rows and columns.

    Returns:
        The panels of columns that are packed at a time, the steps of k that are computed at a time,
        and the floats of scratch memory that this takes.
    """
    depth = _divide(k, _DEPTH, LANES)
    near = min(_count(n, wide.COLUMNS), max(1, _NEAR_BYTES // (depth * wide.B_STEP_BYTES)))
    return near, depth, wide.count_scratch_bytes(m, depth, near) // FLOAT_BYTES


def plan_block(m: int, n: int, k: int, most: int = _DEPTH) -> tuple[int, int, int]:
    """Return how to compute a block of a product, at most so many steps of k at a time.

    Returns:
        The rows of a that are packed at a time, the steps of k that are computed at a time, and the
        floats of scratch memory that this takes.
    """
    depth = _divide(k, most, LANES)
    panels = min(_count(m, ROWS), max(1, _GROUP_BYTES // (depth * A_STEP_BYTES)))
    scratch = depth * (panels * A_STEP_BYTES + _count(n, COLUMNS) * B_STEP_BYTES)
    return panels * ROWS, depth, (scratch + SPARE_BYTES) // FLOAT_BYTES


@emitted(types.float32, *[types.float32] * 3)
def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return vectors.call(builder, "llvm.fma", [a, b, c])


@kernel(reads(types.float32, 1, "A"), reads(types.float32, 1, "A"), writes(types.float32, 1))
def _fold(a: Floats, b: Floats, partials: Floats) -> None:
    for k in range(a.size):
        partials[k + 1] = _fma(a[k], b[k], partials[k])
