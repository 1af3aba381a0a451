"""Kernels that gather the terms of chosen elements of a sum, and weigh them."""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.logged.band import EXACT_BITS
from moot.offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import DOUBLE, WORD

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

_GRAIN = 2**15

_EXACT_UNITS = 2.0**EXACT_BITS
_FRACTION_BITS, _EXPONENTS = 52, 0x7FF
_FRACTION = (1 << _FRACTION_BITS) - 1


def multiply_terms(
    flat: Floats,
    fill: np.float32,
    starts: Integers,
    steps: Integers,
    limits: Integers,
    products: Doubles,
) -> None:
    """Multiply products by the elements of a tensor that an access reads.

    The access of element p and step k has a coordinate in each of R dimensions: starts[p, r] +
    steps[r, k], over a divisor that must go into it.

    Args:
        flat: (N,) float32, contiguous: the tensor.
        fill: what is read where a coordinate is out of range.
        starts: (P, R) int64, contiguous.
        steps: (R, K) int64, contiguous.
        limits: (R, 2) int64, contiguous: the extent and the divisor of each dimension; no extent
            and a divisor of 0 say that the one coordinate is an index that is in range everywhere.
        products: (P, K) binary64, contiguous: the products so far.
    """

    def work(first: int, stop: int) -> None:
        if limits[0, 1]:
            _multiply_checked(flat, fill, starts, steps, limits, products, first, stop)
        else:
            _multiply_strided(flat, starts, steps, products, first, stop)

    share(work, len(products), max(1, _GRAIN // max(1, products.shape[1])))


def weigh_terms(products: Doubles, initial: Floats, magnitudes: Doubles, exact: Flags) -> None:
    """Find the sums of terms' magnitudes, and where binary64 adds up all terms without an error.

    Args:
        products: (P, K) binary64, contiguous: the terms, not subnormal in binary64.
        initial: (P,) float32, contiguous: the initial terms.
        magnitudes: (P,) binary64: the sums, without the initial terms'.
        exact: (P,) bool: whether the sum and the initial term's magnitude are at most 2^52 times
            the largest power of two of which all terms and the initial one are multiples.
    """

    def work(first: int, stop: int) -> None:
        _weigh_terms(products, initial, magnitudes, exact, first, stop)

    share(work, len(products), max(1, _GRAIN // max(1, products.shape[1])))


@kernel(
    reads(types.float32, 1),
    *[reads(types.int64, 2)] * 2,
    writes(types.float64, 2),
    *[types.int64] * 2,
)
def _multiply_strided(
    flat: Floats, starts: Integers, steps: Integers, products: Doubles, first: int, stop: int
) -> None:
    for p in range(first, stop):
        start = starts[p, 0]
        for k in range(products.shape[1]):
            products[p, k] *= np.float64(flat[start + steps[0, k]])


@kernel(
    reads(types.float32, 1),
    types.float32,
    *[reads(types.int64, 2)] * 3,
    writes(types.float64, 2),
    *[types.int64] * 2,
)
def _multiply_checked(
    flat: Floats,
    fill: np.float32,
    starts: Integers,
    steps: Integers,
    limits: Integers,
    products: Doubles,
    first: int,
    stop: int,
) -> None:
    for p in range(first, stop):
        for k in range(products.shape[1]):
            index, is_inside = 0, True
            for r in range(limits.shape[0]):
                size, divisor = limits[r]
                place = starts[p, r] + steps[r, k]
                if divisor != 1:
                    is_inside &= place % divisor == 0
                    place //= divisor
                is_inside &= 0 <= place < size
                index = index * size + place
            products[p, k] *= np.float64(flat[index] if is_inside else fill)


@emitted(types.int64, types.float64)
def _get_bits(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.bitcast(x, WORD)


@emitted(types.float64, types.int64)
def _from_bits(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.bitcast(x, DOUBLE)


@subroutine
def _find_unit(x: float) -> Any:
    """Return the largest power of two of which a number is a multiple; infinity for zero."""
    if x == 0:
        return np.inf
    bits = _get_bits(x)
    fraction = bits & _FRACTION | (_FRACTION + 1)
    scale = ((bits >> _FRACTION_BITS & _EXPONENTS) - _FRACTION_BITS) << _FRACTION_BITS
    return np.float64(fraction & -fraction) * _from_bits(scale)


@kernel(
    reads(types.float64, 2),
    reads(types.float32, 1),
    writes(types.float64, 1),
    writes(types.boolean, 1),
    *[types.int64] * 2,
)
def _weigh_terms(
    products: Doubles, initial: Floats, magnitudes: Doubles, exact: Flags, first: int, stop: int
) -> None:
    for p in range(first, stop):
        magnitude = 0.0
        for k in range(products.shape[1]):
            magnitude += abs(products[p, k])
        start = np.float64(initial[p])
        whole = magnitude + abs(start)
        is_exact = whole <= _find_unit(start) * _EXACT_UNITS
        for k in range(products.shape[1]):
            if not is_exact:
                break
            is_exact = whole <= _find_unit(products[p, k]) * _EXACT_UNITS
        magnitudes[p], exact[p] = magnitude, is_exact
