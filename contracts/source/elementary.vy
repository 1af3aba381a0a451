# pragma version 0.4.3
"""
@title Correctly rounded 1 / sqrt of binary32 numbers
@license Apache-2.0
@notice The result is the binary32 number nearest to the value of the real function.
"""

import float32

# The numerator of 1 / sqrt before the root: an even power of two.
SCALE_OF_ROOT: constant(uint256) = 1 << 84


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
