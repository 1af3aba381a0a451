"""Exact sums of products of binary32 numbers, in integers, and how far another sum is from them.

A sum is a row of limbs of 32 bits in units of 2^-298, each in an integer of 64, so that carries are
made once, at the end. Nothing here is floating-point arithmetic, and nothing is the engine's.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]
Limbs = npt.NDArray[np.int64]

LIMBS = 24
"""Enough for 2^31 of the largest products."""

_LEAST_EXPONENT = 298
_NAN, _INFINITY, _SIGN = 0x7FC00000, 0x7F800000, 0x80000000

_compile: Any = numba.njit(cache=True, nogil=True)


@_compile
def _add_product(limbs: Limbs, x: int, y: int) -> int:
    """Add a product of finite numbers; return flags: 1 NaN, 2 infinity, 4 -infinity, 8 not -0."""
    is_negative = (x ^ y) >> 31
    a, b = x & 0x7FFFFFFF, y & 0x7FFFFFFF
    if a > _INFINITY or b > _INFINITY:
        return 9
    if max(a, b) == _INFINITY:
        if a == 0 or b == 0:
            return 9
        return 12 if is_negative else 10
    exponent = max(a >> 23, 1) + max(b >> 23, 1) - 2
    first = (a & 0x7FFFFF) | (0x800000 if a >> 23 else 0)
    second = (b & 0x7FFFFF) | (0x800000 if b >> 23 else 0)
    product = first * second
    if product == 0:
        return 0 if is_negative else 8
    place, shift = exponent >> 5, exponent & 31
    low = (product & 0xFFFFFFFF) << shift
    high = (product >> 32) << shift
    sign = -1 if is_negative else 1
    limbs[place] += sign * (low & 0xFFFFFFFF)
    limbs[place + 1] += sign * ((low >> 32) + (high & 0xFFFFFFFF))
    limbs[place + 2] += sign * (high >> 32)
    return 8


@_compile
def _carry(limbs: Limbs) -> int:
    """Make the limbs those of the magnitude, 32 bits each; return whether the sum is negative."""
    carried = 0
    for place in range(LIMBS):
        total = limbs[place] + carried
        limbs[place] = total & 0xFFFFFFFF
        carried = total >> 32
    if carried >= 0:
        return 0
    carried = 1
    for place in range(LIMBS):
        total = (limbs[place] ^ 0xFFFFFFFF) + carried
        limbs[place] = total & 0xFFFFFFFF
        carried = total >> 32
    return 1


@_compile
def _find_top(limbs: Limbs) -> int:
    """Return the place of the highest bit, -1 if there is none."""
    for place in range(LIMBS - 1, -1, -1):
        if limbs[place]:
            bit = 31
            while not limbs[place] >> bit & 1:
                bit -= 1
            return 32 * place + bit
    return -1


@_compile
def _get_bit(limbs: Limbs, place: int) -> int:
    return limbs[place >> 5] >> (place & 31) & 1


@_compile
def _round(limbs: Limbs, is_negative: int) -> int:
    """Return the bits of the nearest binary32 number of a magnitude, to even."""
    top = _find_top(limbs)
    last = max(top - 23, _LEAST_EXPONENT - 149)
    kept = 0
    for place in range(top, last - 1, -1):
        kept = kept << 1 | _get_bit(limbs, place)
    is_above = False
    for place in range(last - 1):
        if place & 31 == 0 and place + 32 <= last - 1:
            is_above |= limbs[place >> 5] != 0
        elif (place & ~31) + 32 > last - 1:
            is_above |= _get_bit(limbs, place) != 0
    if _get_bit(limbs, last - 1) and (is_above or kept & 1):
        kept += 1
    # A significand that grows into the next power of two carries into the exponent.
    exponent = last - (_LEAST_EXPONENT - 149)
    bits = kept if exponent == 0 else kept + (exponent << 23)
    return min(bits, _INFINITY) | (_SIGN if is_negative else 0)


@_compile
def _subtract(limbs: Limbs, word: int) -> None:
    """Take a binary64 number that is a multiple of 2^-298 away."""
    exponent, fraction = (word >> 52) & 0x7FF, word & 0xFFFFFFFFFFFFF
    if exponent == 0:
        return
    fraction |= 1 << 52
    shift = exponent - 1075 + _LEAST_EXPONENT
    while shift < 0:
        assert fraction & 1 == 0
        fraction >>= 1
        shift += 1
    sign = 1 if word >> 63 else -1
    place, offset = shift >> 5, shift & 31
    low, high = (fraction & 0xFFFFFFFF) << offset, (fraction >> 32) << offset
    limbs[place] += sign * (low & 0xFFFFFFFF)
    limbs[place + 1] += sign * ((low >> 32) + (high & 0xFFFFFFFF))
    limbs[place + 2] += sign * (high >> 32)


@_compile
def _measure(limbs: Limbs) -> float:
    """Return a magnitude, rounded up to within 2^-50 of it."""
    total = 0.0
    for place in range(LIMBS):
        total = total * 2.0**-32 + limbs[place]
    return total * 2.0 ** (32 * (LIMBS - 1) - _LEAST_EXPONENT) * (1 + 2.0**-50)


@_compile
def sum_products(a: Bits, b: Bits, init: Bits, sums: Words, results: Bits, errors: Doubles) -> None:
    """Find the rounded sums of products, and how far binary64 sums are from the exact ones.

    Args:
        a: (M, K) uint32, the bits of binary32 numbers.
        b: (N, K) uint32.
        init: (M, N) uint32: the initial terms.
        sums: (M, N) uint64, the bits of binary64 sums without their initial terms; NaN is skipped.
        results: (M, N) uint32: the bits of the rounded sums.
        errors: (M, N) float64: the distances, rounded up; NaN where a term is no finite number.
    """
    limbs = np.empty(LIMBS, np.int64)
    for m in range(a.shape[0]):
        for n in range(b.shape[0]):
            limbs[:] = 0
            flags = 0
            for k in range(a.shape[1]):
                flags |= _add_product(limbs, np.int64(a[m, k]), np.int64(b[n, k]))
            errors[m, n] = np.nan
            word = np.int64(sums[m, n])
            if not flags & 7 and (word >> 52) & 0x7FF != 0x7FF:
                rest = limbs.copy()
                _subtract(rest, word)
                _carry(rest)
                errors[m, n] = _measure(rest)
            flags |= _add_product(limbs, np.int64(init[m, n]), np.int64(0x3F800000))
            results[m, n] = _finish(limbs, flags)


@_compile
def _finish(limbs: Limbs, flags: int) -> int:
    if flags & 1 or flags & 6 == 6:
        return _NAN
    if flags & 6:
        return _INFINITY if flags & 2 else _INFINITY | _SIGN
    if not flags & 8:
        return _SIGN
    is_negative = _carry(limbs)
    return 0 if _find_top(limbs) < 0 else _round(limbs, is_negative)
