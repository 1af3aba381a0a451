"""Exponentials and logarithms in float64, and the pieces of which other functions are made."""

import math

import numpy as np

from moot.offchain.native.transcendental.constants import (
    ATANH_TAIL,
    COSH_TAIL,
    EXP_STEPS,
    EXP_TAIL,
    LN2,
    LN2_LOW,
    LOG2_E,
    SINH_TAIL,
)
from moot.offchain.native.transcendental.lanes import Integers, Lanes, look_up, polynomial

PLACES = 52
"""Bits of a significand behind its point."""

_SIGNIFICAND_MASK = 2**PLACES - 1
EXPONENT_BIAS = 1023
_ONE_BITS = EXPONENT_BIAS << PLACES
_SQRT_HALF_BITS = int(np.float64(math.sqrt(0.5)).view(np.int64))
FROM_SQRT_HALF = _ONE_BITS - _SQRT_HALF_BITS
"""What makes the exponent of a number's bits change at sqrt(1/2) times powers of two."""


def power_of_2(exponent: Integers, bias: int = EXPONENT_BIAS) -> Lanes:
    """2^(n + bias - 1023), from the lowest bits of n."""
    return ((exponent << PLACES) + (bias << PLACES)).as_lanes()


def split_exponential(x: Lanes) -> tuple[Integers, Lanes]:
    """The lowest bits of n, and r, with x = n * log(2) + r and |r| <= log(2) / 2.

    The first product needs no rounding: it has no bits below those of LN2, and x has none either.
    """
    integer, bits = x.times_and_round(LOG2_E)
    return bits, integer.times_plus(-LN2_LOW, integer.times_plus(-LN2, x))


def exp_less_1(r: Lanes) -> Lanes:
    """exp(r) - 1, for |r| <= log(2) / 2."""
    square = r * r
    tail = r.times_plus(polynomial(square, SINH_TAIL), polynomial(square, COSH_TAIL))
    return square.times_plus(tail, r)


def exp_wide(x: Lanes) -> Lanes:
    """exp(x), for float32 numbers up to some hundreds.

    It is 2^(n / 8) times the exponential of what is left, and 2^(n / 8) comes from a table: the
    bits of 2^(j / 8), less j in the place where n has its lowest three bits.
    """
    steps = len(EXP_STEPS)
    integer, n = x.times_and_round(LOG2_E * steps)
    r = integer.times_plus(-LN2_LOW / steps, integer.times_plus(-LN2 / steps, x))
    places = PLACES + 1 - steps.bit_length()
    numbers = [int(np.float64(step).view(np.int64)) for step in EXP_STEPS]
    table = [number - (j << places) for j, number in enumerate(numbers)]
    scale = (look_up(table, n) + (n << places)).as_lanes()
    square = r * r
    one, two, three = (
        r.times_plus(b, a) for a, b in zip(EXP_TAIL[::2], EXP_TAIL[1::2], strict=True)
    )
    grown = square.times_plus(square.times_plus(square.times_plus(three, two), one), r)
    return scale.times_plus(grown, scale)


def exp_square(x: Lanes) -> Lanes:
    """exp(x), for |x| up to some hundreds and of any bits, such as squares have."""
    exponent, r = split_exponential(x)
    scale = power_of_2(exponent)
    return scale.times_plus(exp_less_1(r), scale)


def expm1_wide(x: Lanes) -> Lanes:
    """exp(x) - 1, for |x| up to some hundreds; 0 for both zeros."""
    exponent, r = split_exponential(x)
    scale = power_of_2(exponent)
    return scale.times_plus(exp_less_1(r), scale - 1)


def split_significand(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return m and k with x = m * 2^k, and m from sqrt(1/2) up to sqrt(2)."""
    bits = x.bits() + FROM_SQRT_HALF
    significand = (bits & _SIGNIFICAND_MASK) + _SQRT_HALF_BITS
    unit = 2.0**PLACES
    exponent = (bits >> PLACES) | int(np.float64(unit).view(np.int64))
    return significand.as_lanes(), exponent.as_lanes() - (unit + EXPONENT_BIAS)


def log_1_plus(f: Lanes) -> tuple[Lanes, Lanes]:
    """Two summands of log(1 + f), the second one small, for 1 + f from sqrt(1/2) to sqrt(2)."""
    s = f / (f + 2)
    square = s * s
    return s + s, ((s + s) * square) * polynomial(square, ATANH_TAIL)
