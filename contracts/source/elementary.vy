# pragma version 0.4.3
"""
@title Correctly rounded exp and 1 / sqrt of binary32 numbers
@license Apache-2.0
@notice The result is the binary32 number nearest to the value of the real function.
"""

import float32

# From here on exp(x) is infinite, up to minus that it is zero, and below this it is one:
# 89, 104 and 2 ** -25 as patterns.
OVERFLOW: constant(uint256) = 1_118_961_664
UNDERFLOW: constant(uint256) = 1_120_927_744
NEGLIGIBLE: constant(uint256) = 102 << 23

# Fixed-point numbers have this many bits after the point.
POINT: constant(uint256) = 120
ONE: constant(uint256) = 1 << POINT
# ln 2, rounded down.
LN_2: constant(uint256) = 921_350_637_599_661_305_226_344_307_672_478_454
TERMS: constant(uint256) = 24

# The numerator of 1 / sqrt before the root: an even power of two.
SCALE_OF_ROOT: constant(uint256) = 1 << 84


@internal
@pure
def exp(x: uint256) -> uint256:
    """
    @notice e ** x.
    @dev With x = k * ln 2 + r and r in [0, ln 2], e ** x = 2 ** k * e ** r, and e ** r is the
         Taylor polynomial of degree 24 by Horner's rule, in units u = 2 ** -120.

         Range: |x| < 128 and has no bits below 2 ** -48, so that the fixed-point |x| is exact
         and below 2 ** 127; k is at most 151 in magnitude. r < 2 ** 120 and the partial sums
         are below 2 ** 121, so that products stay below 2 ** 241. Differences are of a number
         and a multiple of ln 2 on its other side. Nothing overflows.

         Error: LN_2 is short of ln 2 by less than u, hence r is wrong by less than 151 u and
         e ** r by less than 303 u. Each step of Horner's rule cuts off less than 1 u, which
         later steps shrink: less than 3 u in all. The terms left out are below
         r ** 25 / 25! * e ** r < 2 ** -95. Together, and relative to e ** r >= 1, less than
         2 ** -94.

         Decision: no e ** x of a binary32 number with 2 ** -25 <= |x| < 104 is closer to a
         point half way between two binary32 numbers than 2 ** -53 of its own size (found by
         trying all of them: x = -14.567090034484863 comes closest). An error below 2 ** -94
         does not move the value across a half-way point, and it is rounded correctly.
    """
    magnitude: uint256 = x & (float32.SIGN - 1)
    if magnitude > float32.INFINITY:
        return float32.NAN
    if magnitude < NEGLIGIBLE:
        return float32.ONE
    is_negative: bool = x >= float32.SIGN
    if is_negative and magnitude >= UNDERFLOW:
        return 0
    if not is_negative and magnitude >= OVERFLOW:
        return float32.INFINITY

    rest: uint256 = 0
    exponent: uint256 = 0
    rest, exponent = float32.decode(x)
    # NEGLIGIBLE bounds the exponent from below: it is more than SCALE - 120.
    rest <<= unsafe_sub(exponent, float32.SCALE - POINT)
    halvings: uint256 = unsafe_div(rest, LN_2)
    exponent = unsafe_add(float32.SCALE - POINT, halvings)
    if is_negative:
        halvings = unsafe_add(halvings, 1)
        exponent = unsafe_sub(float32.SCALE - POINT, halvings)
        rest = unsafe_sub(unsafe_mul(halvings, LN_2), rest)
    else:
        rest = unsafe_sub(rest, unsafe_mul(halvings, LN_2))
    power: uint256 = ONE
    for i: uint256 in range(TERMS):
        divisor: uint256 = unsafe_sub(TERMS, i) << POINT
        power = unsafe_add(ONE, unsafe_div(unsafe_mul(power, rest), divisor))
    return float32.encode(0, power, exponent)


@internal
@pure
def reciprocal_square_root(x: uint256) -> uint256:
    """
    @notice 1 / sqrt(x): infinite at the zeros, with their sign, and NaN below.
    @dev For x = m * 2 ** e with e even it is sqrt(2 ** 84 / m) * 2 ** (-42 - e / 2). The
         integer root of a quotient rounded down is that of the quotient, and the last bit says
         whether anything was cut off, so that the rounding is decided exactly. m is below
         2 ** 25: the root has 29 bits or more, and is at most 2 ** 42. m is not 0. Exponents lie
         between 875 and 1,128, so that the difference is not negative.
    """
    magnitude: uint256 = x & (float32.SIGN - 1)
    if magnitude == 0:
        return x | float32.INFINITY
    if x == float32.INFINITY:
        return 0
    if x > float32.INFINITY:
        return float32.NAN
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(x)
    significand <<= exponent & 1
    quotient: uint256 = unsafe_div(SCALE_OF_ROOT, significand)
    inexact: uint256 = convert(unsafe_mul(quotient, significand) != SCALE_OF_ROOT, uint256)
    half: uint256 = exponent >> 1
    exponent = unsafe_sub(float32.SCALE + (float32.SCALE >> 1) - 43, half)
    return float32.encode(0, float32.root(quotient) | inexact, exponent)
