"""The stock binary64 operators, each with a bound of its error, whatever their order.

An addition in binary64 is off by at most 2^-52 of its result, whichever way it rounds; products of
two binary32 numbers are exact. So a sum is off by 2^-52 times the depth of its additions times the
sum of its terms' magnitudes, to first order; the depth that `band.py` allows for has one addition
to spare, which is more than all higher orders.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from offchain.arithmetic.functions import Function
from offchain.arithmetic.logged.band import CHUNK, EXACT_BITS, UNIT_EXPONENT, depth
from offchain.commitments.tensors import Array
from offchain.execution import doubles
from offchain.execution.doubles import Doubles
from offchain.execution.indexing import Integers
from offchain.execution.kernels.doubts import DOUBTFUL, MARK, round_products

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

UNIT = 2.0**UNIT_EXPONENT
WIDEN = 1 + 2.0**-10
"""What makes a computed bound a bound, and keeps it below 1.05 of the exact one."""

_FRACTION_BITS, _EXPONENTS = 52, 0x7FF
_FRACTION = (1 << _FRACTION_BITS) - 1
_FEW_TERMS = 8
_TILE_ELEMENTS, _TILE_COLUMNS = 1 << 17, 256
"""Elements and columns of a product's parts, whose partial sums stay in a core's cache."""


def add_up(terms: Doubles) -> Doubles:
    """Return the sums of rows, by the device's product, in chunks: (P, K) -> (P,)."""
    return _multiply(terms, np.ones((terms.shape[1], 1)))[:, 0]


def bound_error(additions: Any, magnitudes: Doubles, initial: Doubles) -> Doubles:
    """Return E' of sums, given D and the sums of their terms' magnitudes."""
    error: Doubles = UNIT * WIDEN * (additions * magnitudes + 2 * np.abs(initial))
    return error


def _find_unit(numbers: Doubles) -> Doubles:
    """Return the largest power of two of which each number is a multiple; infinity for zeros.

    Products of binary32 numbers are not subnormal in binary64, nor near to that.
    """
    bits = numbers.view(np.int64)
    fraction = bits & _FRACTION | _FRACTION + 1
    scale = ((bits >> _FRACTION_BITS & _EXPONENTS) - _FRACTION_BITS) << _FRACTION_BITS
    unit = (fraction & -fraction).astype(np.float64) * scale.view(np.float64)
    return np.where(numbers == 0, np.inf, unit)


def find_exact(products: Doubles, initial: Doubles, magnitudes: Doubles) -> Flags:
    """Return where binary64 adds up all terms without an error; a few terms mostly tell."""
    exact = np.ones(len(products), np.bool_)
    for part in (slice(_FEW_TERMS), slice(None)):
        rows = np.flatnonzero(exact)
        unit = np.minimum(_find_unit(products[rows, part]).min(1), _find_unit(initial[rows]))
        exact[rows] = magnitudes[rows] + np.abs(initial[rows]) <= unit * 2.0**EXACT_BITS
    return exact


@np.errstate(all="ignore")
def multiply(reach: float, a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    """Multiply batches of matrices: out[z] = init[z] + a[z] @ b[z], rounded once or marked.

    By Cauchy's inequality the magnitudes of the products add up to at most the product of the
    norms. Each norm is off by no more than such a sum may be.

    Args:
        reach: how far from a boundary, in multiples of E', results are marked.
        a: (B, M, K) float32, any strides.
        b: (B, K, N) float32, any strides.
        init: (B, M, N) float32, any strides; it may be `out`.
        out: (B, M, N) float32, any strides.
    """
    steps = a.shape[2]
    scale = reach * (depth(steps + 1) + 2) * UNIT * WIDEN * (1 + 2 * steps * UNIT)
    for left, right, start, result in zip(a, b, init, out, strict=True):
        rows, columns = left.astype(np.float64), right.astype(np.float64)
        heights = np.sqrt(np.einsum("mk,mk->m", rows, rows)) * scale
        widths = np.sqrt(np.einsum("kn,kn->n", columns, columns))
        for m, n in _iterate_tiles(*result.shape):
            total = _multiply(rows[m], columns[:, n])
            round_products(total, heights[m], widths[n], start[m, n], result[m, n])


def _iterate_tiles(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Yield the parts of a product that are made at once."""
    width = max(_TILE_COLUMNS, _TILE_ELEMENTS // max(1, rows))
    height = max(1, _TILE_ELEMENTS // min(width, max(1, columns)))
    for n in range(0, columns, width):
        for m in range(0, rows, height):
            yield slice(m, m + height), slice(n, n + width)


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


@np.errstate(all="ignore")
def fold_rows(reach: float, matrix: Array, init: Array) -> Array:
    """Return the sum of each row, from its element of init, rounded once or marked."""
    terms, initial = matrix.astype(np.float64), init.astype(np.float64)
    totals, magnitudes = add_up(terms) + initial, add_up(np.abs(terms))
    error = bound_error(depth(terms.shape[1] + 1), magnitudes, initial)
    out = _round_sums(totals, reach * error, initial)
    marked = np.flatnonzero((out.view(np.uint32) == MARK) & (totals != 0))
    # Sums of a few numbers are often exact, and then half way between two others.
    exact = marked[find_exact(terms[marked], initial[marked], magnitudes[marked])]
    out[exact] = totals[exact]
    return out


@np.errstate(all="ignore")
def scatter_rows(reach: float, buffer: Array, rows: Integers, matrix: Array) -> None:
    """Add the matrix's rows to these rows of the buffer, each sum rounded once or marked."""
    is_inside = (rows >= 0) & (rows < len(buffer))
    touched, places = np.unique(rows[is_inside], return_inverse=True)
    terms = matrix[is_inside].astype(np.float64)
    initial = buffer[touched].astype(np.float64)
    totals, magnitudes = initial.copy(), np.zeros(initial.shape)
    np.add.at(totals, places, terms)
    np.add.at(magnitudes, places, np.abs(terms))
    additions = np.bincount(places, minlength=len(touched))[:, None] + 1
    error = bound_error(additions, magnitudes, initial)
    buffer[touched] = _round_sums(totals, reach * error, initial)


def _round_sums(totals: Doubles, reach: Doubles, initial: Doubles) -> Floats:
    """Round sums, but mark those that may change within their reach, and doubtful zeros."""
    low, high = (totals - reach).astype(np.float32), (totals + reach).astype(np.float32)
    is_zero = (low == 0) & ((reach != 0) | np.signbit(initial))
    rounded = np.where(is_zero | (low != high), DOUBTFUL, low + np.float32(0))
    return np.where(np.isnan(totals), np.float32(np.nan), rounded)


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


def _apply_by_c(function: Callable[[float], float]) -> Callable[[Doubles], Doubles]:
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x), np.float64)


FUNCTIONS: Mapping[Function, Callable[..., Doubles]] = {
    Function.EXP: np.exp,
    Function.EXPM1: np.expm1,
    Function.EXP2: np.exp2,
    Function.LOG: np.log,
    Function.LOG1P: np.log1p,
    Function.LOG2: np.log2,
    Function.SIN: np.sin,
    Function.COS: np.cos,
    Function.TAN: np.tan,
    Function.TANH: np.tanh,
    Function.SINH: np.sinh,
    Function.COSH: np.cosh,
    Function.ERF: _apply_by_c(math.erf),
    Function.ERFC: _apply_by_c(math.erfc),
    Function.RSQRT: lambda x: np.asarray(1 / np.sqrt(x)),
    Function.SIGMOID: _sigmoid,
    Function.POW: np.power,
}
"""Functions whose binary64 form is known to err by at most 2^-46 of its value.

Numpy's own vector forms err by less than 4 units in the last place (2^-50), as its documentation of
SIMD says, and the others are the C library's: the GNU manual, "Known Maximum Errors in Math
Functions", has at most 4 units for all of these on x86-64 and aarch64, and erfc's 5 is the most. A
quotient or a sum of such values adds two. The bound is eight times the largest of these or more.
"""
