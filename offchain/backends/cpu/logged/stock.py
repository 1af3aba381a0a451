"""The stock binary64 operators, each with a bound of its error, whatever their order.

An addition in binary64 is off by at most 2^-52 of its result, whichever way it rounds; products of
two binary32 numbers are exact. So a sum is off by 2^-52 times the depth of its additions times the
sum of its terms' magnitudes, to first order; the depth that `band.py` allows for has one addition
to spare, which is more than all higher orders.

**What is left unmarked.** At first, sums are made in any order, within a bound R of their own
(`compute_reach`): R >= 2^-52 (A + 8) S, with A >= D - 2 additions one after another, S the sum of
the magnitudes or what bounds it, and t the initial term, which a reduction counts as a part of S.
An element is marked unless v - c R - s and v + c R + s round to one number, with v the sum and c
1 for an auditor and 3.25 for a trainer. A product's s is 2^-48 |v|, a reduction's is 0. So the
exact value x is on the same side of every boundary b, and farther from it than (c - 1) R + s - 4 *
2^-52 |v|, of which the last are the last operations. To a trainer this is more than 2.25 E, so that
no auditor is in doubt (`band.py`): 2.25 R exceeds 2.25 * 2^-52 D S by 13.5 * 2^-52 S, and |t| is at
most |v| + S, to first order, so that 2.25 * 2 |t| is at most 4.5 S + 4.5 |v|, and 4.5 + 4 < 16.
"""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.logged.band import CHUNK, UNIT_EXPONENT
from moot.offchain.backends.cpu import products
from moot.offchain.backends.cpu.indexing import Integers
from moot.offchain.backends.cpu.kernels.bounded_sums import compute_reach
from moot.offchain.backends.cpu.kernels.doubts import (
    DOUBTFUL,
    EXACT_RATIO,
    round_products,
    sum_rows,
)
from moot.offchain.backends.cpu.products import Products
from moot.offchain.commitments.tensors import Array
from moot.offchain.native import doubles
from moot.offchain.native.doubles import Doubles

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

UNIT = 2.0**UNIT_EXPONENT
WIDEN = 1 + 2.0**-10
"""What makes a computed bound a bound, and keeps it below 1.05 of the exact one."""


def add_up(terms: Doubles) -> Doubles:
    """Return the sums of rows, by the device's product, in chunks: (P, K) -> (P,)."""
    return _multiply(terms, np.ones((terms.shape[1], 1)))[:, 0]


def bound_error(additions: Any, magnitudes: Doubles, initial: Doubles) -> Doubles:
    """Return E' of sums, given D and the sums of their terms' magnitudes."""
    error: Doubles = UNIT * WIDEN * (additions * magnitudes + 2 * np.abs(initial))
    return error


def multiply(reach: float, a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    """Multiply batches of matrices as `products.multiply` does, each sum rounded once or marked."""
    products.multiply(partial(_round_products, reach), a, b, init, out)


def _round_products(reach: float, found: Products, init: Floats, out: Floats) -> None:
    round_products(found.sums, found.rows * reach, found.columns, init, out)


def _multiply(a: Doubles, b: Doubles) -> Doubles:
    """Return a product whose sums are made in chunks, and the chunks' sums likewise."""
    steps, size = a.shape[1], CHUNK
    if steps <= CHUNK:
        return doubles.multiply(a, b)
    while size * CHUNK < steps:
        size *= CHUNK
    total = _multiply(a[:, :size], b[:size])
    for first in range(size, steps, size):
        total += _multiply(a[:, first : first + size], b[first : first + size])
    return total


def fold_rows(reach: float, matrix: Array, init: Array) -> Floats:
    """Return the sum of each row, from its element of init, rounded once or marked."""
    x, start = np.asarray(matrix, np.float32), np.ascontiguousarray(init, np.float32)
    out, terms = np.empty(len(x), np.float32), x.shape[1]
    sum_rows(x, start, reach * compute_reach(terms + 1, terms + 1), out)
    return out


@np.errstate(all="ignore")
def scatter_rows(reach: float, buffer: Array, rows: Integers, matrix: Array) -> None:
    """Add the matrix's rows to these rows of the buffer, each sum rounded once or marked."""
    inside = np.flatnonzero((rows >= 0) & (rows < len(buffer)))
    if not len(inside):
        return
    order = inside[np.argsort(rows[inside], kind="stable")]
    touched, starts, counts = np.unique(rows[order], return_index=True, return_counts=True)
    terms, initial = matrix[order].astype(np.float64), buffer[touched].astype(np.float64)
    sizes, first = np.abs(terms), np.abs(initial)
    magnitudes = np.add.reduceat(sizes, starts)
    smallest = np.minimum.reduceat(np.where(sizes == 0, np.inf, sizes), starts)
    smallest = np.minimum(smallest, np.where(first == 0, np.inf, first))
    error = bound_error(counts[:, None] + 1, magnitudes, initial)
    error[magnitudes + first <= EXACT_RATIO * smallest] = 0
    totals = np.add.reduceat(terms, starts) + initial
    buffer[touched] = round_sums(totals, reach * error, initial)


def round_sums(totals: Doubles, reach: Doubles, initial: Doubles) -> Floats:
    """Round sums, but mark those that may change within their reach, and doubtful zeros."""
    low, high = (totals - reach).astype(np.float32), (totals + reach).astype(np.float32)
    is_zero = (low == 0) & ((reach != 0) | np.signbit(initial))
    rounded = np.where(is_zero | (low != high), DOUBTFUL, low + np.float32(0))
    return np.where(np.isnan(totals), np.float32(np.nan), rounded)
