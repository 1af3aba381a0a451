"""IEEE 754 binary32 on bit patterns: exact integers and one rounding.

A pattern is an integer in [0, 2^32). Operands may be any NaN; every NaN result is `NAN`.
"""

import math
from collections.abc import Callable

from moot.offchain.arithmetic.functions import CANONICAL_NAN

NAN = CANONICAL_NAN
SIGN = 0x80000000
INFINITY = 0x7F800000
NEGATIVE_INFINITY = SIGN | INFINITY
ZERO = 0
NEGATIVE_ZERO = SIGN
ONE = 0x3F800000

SIGNIFICAND_BITS = 24
FRACTION_BITS = SIGNIFICAND_BITS - 1
LEAST_EXPONENT = -149
"""The weight of the last bit of a subnormal number is 2^-149."""

_FRACTION = (1 << FRACTION_BITS) - 1
_SIGN_SHIFT = 31


def is_nan(x: int) -> bool:
    """Whether the pattern is a NaN, of any payload and sign."""
    return magnitude(x) > INFINITY


def is_infinite(x: int) -> bool:
    """Whether the pattern is plus or minus infinity."""
    return magnitude(x) == INFINITY


def is_zero(x: int) -> bool:
    """Whether the pattern is plus or minus zero."""
    return magnitude(x) == 0


def sign(x: int) -> int:
    """Return the sign bit: 1 for negative patterns, -0 included."""
    return x >> _SIGN_SHIFT


def magnitude(x: int) -> int:
    """Return the pattern without its sign bit; magnitudes are ordered as the numbers are."""
    return x & ~SIGN


def with_sign(sign_bit: int, x: int) -> int:
    """Return the pattern of |x| under the given sign bit."""
    return sign_bit << _SIGN_SHIFT | magnitude(x)


def decode(x: int) -> tuple[int, int]:
    """Split a finite pattern: x = significand * 2^exponent, where both zeros have significand 0."""
    biased = (x & ~SIGN) >> FRACTION_BITS
    significand = x & _FRACTION
    if biased:
        significand |= 1 << FRACTION_BITS
        biased -= 1
    return -significand if x & SIGN else significand, biased + LEAST_EXPONENT


def encode(sign_bit: int, significand: int, exponent: int) -> int:
    """Round (-1)^sign * significand * 2^exponent to nearest, ties to even: the one rounding.

    A significand of 26 bits or more may stand for a number that is larger by less than one unit, if
    its last bit is set (a sticky bit): no rounding boundary lies between the two.
    """
    if significand == 0:
        return sign_bit << _SIGN_SHIFT
    unit = max(significand.bit_length() + exponent - SIGNIFICAND_BITS, LEAST_EXPONENT)
    shift = unit - exponent
    if shift <= 0:
        kept = significand << -shift
    else:
        kept = significand >> shift
        doubled_rest = (significand - (kept << shift)) << 1
        if doubled_rest + (kept & 1) > 1 << shift:
            kept += 1
    # The leading bit of a normal `kept`, and a carry out of the rounding, add to the exponent.
    rounded = ((unit - LEAST_EXPONENT) << FRACTION_BITS) + kept
    return sign_bit << _SIGN_SHIFT | min(rounded, INFINITY)


def canonical(x: int) -> int:
    """Return the pattern itself, or the canonical NaN for any NaN."""
    return NAN if x & ~SIGN > INFINITY else x


def fma(x: int, y: int, z: int) -> int:
    """Return x * y + z, rounded once."""
    if x & INFINITY == INFINITY or y & INFINITY == INFINITY or z & INFINITY == INFINITY:
        return _fma_of_not_finite(x, y, z)
    (x_significand, x_exponent), (y_significand, y_exponent) = decode(x), decode(y)
    z_significand, z_exponent = decode(z)
    product_exponent = x_exponent + y_exponent
    exponent = min(product_exponent, z_exponent)
    total = (x_significand * y_significand) << (product_exponent - exponent)
    total += z_significand << (z_exponent - exponent)
    if total == 0:
        # Two zeros, or opposites that cancel: negative only if both addends are.
        return with_sign((sign(x) ^ sign(y)) & sign(z), ZERO)
    return encode(int(total < 0), abs(total), exponent)


def _fma_of_not_finite(x: int, y: int, z: int) -> int:
    if is_nan(x) or is_nan(y) or is_nan(z):
        return NAN
    if is_infinite(x) or is_infinite(y):
        product_sign = sign(x) ^ sign(y)
        if is_zero(x) or is_zero(y) or z == with_sign(1 - product_sign, INFINITY):
            return NAN
        return with_sign(product_sign, INFINITY)
    return z


def add(x: int, y: int) -> int:
    """Return x + y."""
    return fma(x, ONE, y)


def subtract(x: int, y: int) -> int:
    """Return x - y."""
    return fma(x, ONE, y ^ SIGN)


def multiply(x: int, y: int) -> int:
    """Return x * y; adding -0 changes no number, nor the sign of a zero."""
    return fma(x, y, NEGATIVE_ZERO)


def divide(x: int, y: int) -> int:
    """Return x / y; a number by zero is infinite, and 0/0 and inf/inf are NaN."""
    if is_nan(x) or is_nan(y):
        return NAN
    quotient_sign = sign(x) ^ sign(y)
    if is_infinite(x) or is_zero(y):
        undefined = is_infinite(y) or is_zero(x)
        return NAN if undefined else with_sign(quotient_sign, INFINITY)
    if is_infinite(y) or is_zero(x):
        return with_sign(quotient_sign, ZERO)
    (x_significand, x_exponent), (y_significand, y_exponent) = (
        decode(magnitude(x)),
        decode(magnitude(y)),
    )
    # A divisor below 2^24 leaves at least 26 bits of quotient above the sticky bit.
    quotient, rest = divmod(x_significand << 2 * SIGNIFICAND_BITS + 2, y_significand)
    exponent = x_exponent - y_exponent - 2 * SIGNIFICAND_BITS - 2
    return encode(quotient_sign, quotient << 1 | (rest != 0), exponent - 1)


def square_root(x: int) -> int:
    """Return the square root; of -0 it is -0, of other negative numbers NaN."""
    if is_nan(x) or is_zero(x) or x == INFINITY:
        return canonical(x)
    if sign(x):
        return NAN
    significand, exponent = decode(x)
    # 2^52 or 2^53 as a scale makes the exponent even and leaves at least 26 bits of root.
    shift = 2 * SIGNIFICAND_BITS + 4 + exponent % 2
    radicand = significand << shift
    root = math.isqrt(radicand)
    return encode(0, root << 1 | (root * root != radicand), (exponent - shift) // 2 - 1)


def negate(x: int) -> int:
    """Return -x, by flipping the sign."""
    return canonical(x ^ SIGN)


def absolute(x: int) -> int:
    """Return |x|."""
    return canonical(magnitude(x))


def order(x: int) -> int:
    """Return an integer key that orders all patterns but NaN, -0 before +0."""
    return -magnitude(x) - 1 if sign(x) else x


def maximum(x: int, y: int) -> int:
    """Return the larger operand, with +0 > -0; NaN if either is NaN."""
    return NAN if is_nan(x) or is_nan(y) else max(x, y, key=order)


def minimum(x: int, y: int) -> int:
    """Return the smaller operand, with -0 < +0; NaN if either is NaN."""
    return NAN if is_nan(x) or is_nan(y) else min(x, y, key=order)


def equal(x: int, y: int) -> bool:
    """Whether x = y; the zeros are equal, and NaN equals nothing."""
    return not (is_nan(x) or is_nan(y)) and (x == y or (is_zero(x) and is_zero(y)))


def less(x: int, y: int) -> bool:
    """Whether x < y; false if either is NaN."""
    return not (is_nan(x) or is_nan(y) or equal(x, y)) and order(x) < order(y)


def less_equal(x: int, y: int) -> bool:
    """Whether x <= y; false if either is NaN."""
    return less(x, y) or equal(x, y)


def _to_integral(x: int, is_away: Callable[[int, int, int], bool]) -> int:
    """Round to an integer.

    `is_away` decides, from the whole part of |x|, what is left of it and the weight of one in that
    rest, whether to round away from zero.
    """
    if is_nan(x) or is_infinite(x):
        return canonical(x)
    significand, exponent = decode(magnitude(x))
    if exponent >= 0:
        return x
    one = 1 << -exponent
    whole, rest = divmod(significand, one)
    return encode(sign(x), whole + is_away(whole, rest, one), 0)


def floor(x: int) -> int:
    """Return the largest integer that is not above x, with the sign of x if it is zero."""
    return _to_integral(x, lambda _, rest, __: sign(x) == 1 and rest > 0)


def ceil(x: int) -> int:
    """Return the smallest integer that is not below x, with the sign of x if it is zero."""
    return _to_integral(x, lambda _, rest, __: sign(x) == 0 and rest > 0)


def truncate(x: int) -> int:
    """Return the integer part of x, with the sign of x if it is zero."""
    return _to_integral(x, lambda *_: False)


def round_half_even(x: int) -> int:
    """Return the nearest integer, ties to even, with the sign of x if it is zero."""
    return _to_integral(x, lambda whole, rest, one: 2 * rest + whole % 2 > one)


def from_integer(value: int) -> int:
    """Return the binary32 nearest to an integer, ties to even."""
    return encode(int(value < 0), abs(value), 0)


def to_integer(x: int, width: int) -> int:
    """Truncate toward zero, and saturate as a signed integer of `width` bits; NaN is 0."""
    if is_nan(x):
        return 0
    least, greatest = -(1 << width - 1), (1 << width - 1) - 1
    if is_infinite(x):
        return least if sign(x) else greatest
    significand, exponent = decode(magnitude(x))
    whole = significand << exponent if exponent >= 0 else significand >> -exponent
    return max(-whole, least) if sign(x) else min(whole, greatest)
