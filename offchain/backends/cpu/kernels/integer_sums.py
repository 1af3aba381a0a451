"""Sums of binary32 numbers and of their products as integers, as the definition of `exact` has it.

A sum is an integer in units of 2^-298, in limbs of 32 bits each, which may be above that or below
zero until carries are passed on. The terms are finite binary64 numbers that such a product can be.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.native.compiled import emitted, subroutine
from moot.offchain.native.vectors import FLOAT, WORD

Limbs = npt.NDArray[np.int64]

LIMBS = 22
"""704 bits: terms end below bit 555, and there are fewer than 2^63."""

_LIMB_BITS = 32
_MASK = (1 << _LIMB_BITS) - 1
_FRACTION_BITS, _EXPONENT_MASK = 52, 0x7FF
_FIRST_EXPONENT = 1023 + 52 - 298
"""The exponent, as binary64 has it, of numbers whose last place is one unit."""
_LEAST_PLACE = 298 - 149
"""The bit of binary32's smallest number."""
_SIGNIFICAND_BITS = 24
_INFINITY = 0x7F800000
_CARRY_EVERY = 1 << 28
"""Each term adds less than 2^33 to a limb, which has 63 bits."""


@emitted(types.int64, types.float64)
def _get_word(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.bitcast(x, WORD)


@emitted(types.float32, types.int32)
def _get_float(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    return builder.bitcast(bits, FLOAT)


@subroutine
def begin(limbs: Limbs, term: float) -> None:
    """Begin a sum with its initial term."""
    limbs[:] = 0
    deposit(limbs, 1, term)


@subroutine
def deposit(limbs: Limbs, number: int, term: float) -> None:
    """Add a term, which is the one of this number: all are to have some that follow each other."""
    if number % _CARRY_EVERY == 0:
        _carry(limbs)
    word = _get_word(term)
    exponent = (word >> _FRACTION_BITS) & _EXPONENT_MASK
    if exponent == 0:  # it is zero
        return
    magnitude = (word & ((1 << _FRACTION_BITS) - 1)) | (1 << _FRACTION_BITS)
    place = exponent - _FIRST_EXPONENT
    if place < 0:  # whose lowest bits are zeros
        magnitude >>= -place
        place = 0
    limb, part = place >> 5, place & 31
    low, high = (magnitude & _MASK) << part, (magnitude >> _LIMB_BITS) << part
    middle = (low >> _LIMB_BITS) + (high & _MASK)
    if word < 0:
        limbs[limb] -= low & _MASK
        limbs[limb + 1] -= middle
        limbs[limb + 2] -= high >> _LIMB_BITS
    else:
        limbs[limb] += low & _MASK
        limbs[limb + 1] += middle
        limbs[limb + 2] += high >> _LIMB_BITS


@subroutine
def finish(limbs: Limbs) -> Any:
    """Return a sum, rounded to nearest even, for whose terms the limbs are not needed any more."""
    _carry(limbs)
    is_negative = limbs[LIMBS - 1] < 0
    if is_negative:
        for limb in range(LIMBS):
            limbs[limb] = -limbs[limb]
        _carry(limbs)
    top = LIMBS - 1
    while top > 0 and limbs[top] == 0:
        top -= 1
    length, rest = _LIMB_BITS * top, limbs[top]
    while rest > 0:
        length += 1
        rest >>= 1
    last = max(length - _SIGNIFICAND_BITS, _LEAST_PLACE)
    limb, part = last >> 5, last & 31
    above = (limbs[limb] >> part) | (limbs[limb + 1] << (_LIMB_BITS - part))
    significand = above & ((1 << _SIGNIFICAND_BITS) - 1)
    half, below = (last - 1) >> 5, (last - 1) & 31
    others = limbs[half] & ((1 << below) - 1)
    for lower in range(half):
        others |= limbs[lower]
    if (limbs[half] >> below) & 1 and (others != 0 or significand & 1):
        significand += 1
    bits = min(((last - _LEAST_PLACE) << (_SIGNIFICAND_BITS - 1)) + significand, _INFINITY)
    rounded = _get_float(np.int32(bits))
    return -rounded if is_negative else rounded


@subroutine
def _carry(limbs: Limbs) -> None:
    """Pass carries on, so that all limbs but the last are of 32 bits."""
    for limb in range(LIMBS - 1):
        carry = limbs[limb] >> _LIMB_BITS
        limbs[limb] -= carry << _LIMB_BITS
        limbs[limb + 1] += carry
