"""The engine of tensor cores' products: factors of bfloat16, and binary32 sums block by block."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cpu.called_products import Products
from moot.offchain.backends.cpu.contractions import Contraction
from moot.offchain.backends.cpu.kernels.contraction.tensor_blocks import (
    Floats,
    Patterns,
    count_scratch_bytes,
    divide_steps,
    fold_elements,
    multiply_parts,
)
from moot.offchain.backends.cpu.kernels.contraction.tensor_tile import COLUMNS, ROWS
from moot.offchain.backends.cpu.plans import plan_node
from moot.offchain.backends.port import Plan
from moot.offchain.native.scratch import get_scratch
from moot.offchain.native.threads import get_threads, share
from moot.offchain.native.vectors import NAN
from moot.offchain.programs.graph import Node

_GRAIN = 2**18
"""Products that make another thread worth its start."""

_ELEMENTS_GRAIN = 2**12
"""The same where they are added up one by one."""

_MOST_ROWS = 512
"""Rows that are packed at a time at most: a far cache then holds them."""

_PARTS_PER_THREAD = 4

_FLOAT_BYTES = 4


def plan_product(node: Node, block: Block) -> Plan:
    """Return the plan of a contraction of factors of bfloat16 whose sums are float32."""
    if node.elements == 0 or node.fold_length == 0:
        return plan_node(node)
    return Contraction(node, Products(multiply(block)), keeps_folds=True)


def multiply(block: Block) -> Callable[..., None]:
    """Return what multiplies batches of matrices: out[z] = init[z] + a[z] @ b[z], by blocks.

    Its arguments are:
        a: (B, M, K) uint16, patterns of bfloat16, any strides.
        b: (B, K, N) uint16, likewise.
        init: (B, M, N) float32, any strides.
        out: (B, M, N) float32, any strides; it may be `init`, but shares no memory with a and b.
    """
    return partial(_multiply, block)


class _Division(NamedTuple):
    """The division of products into parts.

    Attributes:
        rows: of a part of a matrix.
        columns: of one.
        parts: how many there are.
        grain: how many are worth another thread.
    """

    rows: int
    columns: int
    parts: int
    grain: int


def _multiply(block: Block, a: Patterns, b: Patterns, init: Floats, out: Floats) -> None:
    """Multiply as `multiply` says."""
    batch, m, n = out.shape
    assert init.shape == out.shape
    assert (a.shape[:2], b.shape) == ((batch, m), (batch, a.shape[2], n))
    if _count_padded(n, m) < _count_padded(m, n):
        a, b, init, out = (
            b.swapaxes(1, 2),
            a.swapaxes(1, 2),
            init.swapaxes(1, 2),
            out.swapaxes(1, 2),
        )
    if out.strides[2] != _FLOAT_BYTES and out.shape[2] > 1:
        sums = np.array(init, order="C")
        _add(block, a, b, sums)
        out[...] = sums
    else:
        out[...] = init
        _add(block, a, b, out)


def _add(block: Block, a: Patterns, b: Patterns, out: Floats) -> None:
    """Add the products to sums in place, whose rows are contiguous."""
    (batch, m, n), steps = out.shape, a.shape[2]
    arguments = block.pairs, block.kept_bits, block.zero_exponent
    if not out.size or not steps:
        out[np.isnan(out)] = NAN
    elif m * n == 1:
        grain = max(1, _ELEMENTS_GRAIN // steps)
        share(lambda *some: fold_elements(a, b, out, *arguments, *some), batch, grain)
    else:
        depth = divide_steps(steps)
        division = _divide(batch, m, n, steps, get_threads())
        size = count_scratch_bytes(division.rows, depth)

        def work(first: int, stop: int) -> None:
            scratch = get_scratch("tensor", -(-size // _FLOAT_BYTES)).view(np.uint8)
            sizes = depth, division.rows, division.columns
            multiply_parts(a, b, out, scratch, *arguments, *sizes, first, stop)

        share(work, division.parts, division.grain)


@lru_cache(1024)
def _divide(batch: int, m: int, n: int, steps: int, threads: int) -> _Division:
    """Return how to divide products of matrices of m rows, n columns and so many steps."""
    rows, columns = _cut(m, -(-m // _MOST_ROWS), ROWS), n
    wanted = -(-_PARTS_PER_THREAD * threads // (batch * -(-m // rows)))
    if threads > 1 and wanted > 1 and batch * m * n * steps >= 2 * _GRAIN:
        if m > n:
            rows = _cut(m, wanted * -(-m // rows), ROWS)
        else:
            columns = _cut(n, wanted, COLUMNS)
    parts = batch * -(-m // rows) * -(-n // columns)
    return _Division(rows, columns, parts, max(1, _GRAIN // (rows * columns * steps)))


def _cut(length: int, parts: int, unit: int) -> int:
    """Return the size of as many parts of a length, a multiple of a unit."""
    size = -(-length // parts)
    return -(-size // unit) * unit


def _count_padded(m: int, n: int) -> int:
    """Return how many elements the tiles of a matrix have."""
    return -(-m // ROWS) * ROWS * -(-n // COLUMNS) * COLUMNS
