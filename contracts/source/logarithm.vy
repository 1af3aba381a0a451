# pragma version 0.4.3
"""
@title Correctly rounded log, log2 and log1p of binary32 numbers
@license Apache-2.0
@notice The result is the binary32 number nearest to the value of the real function.
@dev Numbers are in fixed point with units u = 2 ** -124, sums of logarithms in units
     w = 2 ** -148. The number 2 ** k * m, with m = 1 + v and v in [-75 / 256, 53 / 128), has the
     logarithm k * ln 2 + v * slope(v).

     Error: the slope is off by less than 2 ** -118 of itself, and by 3 u more for base 2. For
     k = 0 v is exact and 2 ** -24 or more, so that v * slope(v), cut to units w, is off by less
     than 2 ** -117 of itself. For k != 0 it is below 0.51 and the sum above 0.34; k * ln 2 is off
     by less than 1 w for each k, and the sum by less than 2 ** -116 of itself; that holds also
     for log1p, where v has lost what is below 1 u. Cutting a sum to units of 2 ** -120, and the
     product with a small operand of log1p, leaves 96 bits or more. Every result is off by less
     than 2 ** -95 of itself.

     Decision: all 2 ** 32 operands of every function were tried. No value of log is nearer than
     2 ** -35 ulp to a point half way between two binary32 numbers, none of log2 nearer than
     2 ** -28 ulp, and none of log1p nearer than 2 ** -43 ulp (it is the value at
     12_582_915 * 2 ** -44), more than 2 ** -68 of itself. An error below 2 ** -95 does not move
     a value across a half-way point. Values that are binary32 numbers (log2 of powers of two, all
     values at 1) come out exactly; none is half way.
"""

import exponential
import float32

POINT: constant(uint256) = exponential.POINT
ONE: constant(uint256) = exponential.ONE
LEVELS: constant(uint256) = 16

# 1 / ln 2 in units u, and ln 2 and 1 in units w, all rounded down.
INVERSE_LN_2: constant(uint256) = 30_682_730_203_674_785_359_148_084_142_880_827_345
FINER: constant(uint256) = 24
FINE_LN_2: constant(uint256) = 247_323_178_539_955_827_913_988_917_443_066_052_633_431_860
FINE_ONE: constant(uint256) = ONE << FINER
# A sum in units w is rounded down to units of 2 ** -120.
COARSER: constant(uint256) = 28
COARSE_UNIT: constant(uint256) = float32.SCALE - 120

# 181 / 128, about the square root of 2, in units u: m is below.
MIDDLE: constant(uint256) = 181 << (POINT - 7)
# 53 / 128 and 75 / 256 as patterns: to there log1p is that of 1 + x with k = 0.
NEAR_ABOVE: constant(uint256) = 125 << 23 | 21 << 18
NEAR_BELOW: constant(uint256) = 125 << 23 | 11 << 17
HALF: constant(uint256) = 126 << 23


@internal
@pure
def slope(v: uint256, is_negative: bool) -> uint256:
    """
    @notice log(1 + v) / v in units u, or log(1 - v) / -v: from 0.83 to 1.19.
    @dev With d = 2 + v it is 2 / c, where c is Gauss's continued fraction
         d - v ** 2 / (3 * d - 4 * v ** 2 / (5 * d - 9 * v ** 2 / (7 * d - ...))), here with 16
         levels below the first.

         Range: with s = v / d, s ** 2 < 0.0295, the denominator c_n of level n is at most
         (2 * n + 1) * d, and at least (2 * n + 1 - (n + 1) * s ** 2) * d by induction from below.
         So nothing is negative. The squares are below 2 ** 246 and 256 times that below 2 ** 254.

         Error: a change of c_n moves c_(n - 1) by (n * v / c_n) ** 2 of it, less than 1 / 130.
         What is left out below c_16 is less than 0.25 * d, and moves c by less than 0.6 *
         2 ** -117, the product of all those factors. Each quotient is cut by less than 1 u, which
         moves c by less than 1.01 u in all. c is 1.69 or more: the result is off by less than
         2 ** -118 of itself.
    @param v In units u, at most 53 / 128, or 75 / 256 if it is negative.
    """
    square: uint256 = unsafe_mul(v, v)
    step: uint256 = unsafe_add(2 * ONE, v)
    if is_negative:
        step = unsafe_sub(2 * ONE, v)
    term: uint256 = unsafe_mul(2 * LEVELS + 1, step)
    fraction: uint256 = term
    step <<= 1
    for i: uint256 in range(LEVELS):
        level: uint256 = unsafe_sub(LEVELS, i)
        term = unsafe_sub(term, step)
        fraction = unsafe_sub(
            term, unsafe_div(unsafe_mul(unsafe_mul(level, level), square), fraction)
        )
    return unsafe_div(ONE << (POINT + 1), fraction)


@internal
@pure
def of_number(x: uint256, is_binary: bool) -> (uint256, uint256):
    """
    @notice The logarithm of a binary32 number, to base 2 or e.
    @dev A subnormal significand is normalised as the number that it is.
    @param x A finite pattern above 0.
    @return sign `SIGN` or 0.
    @return size In units w, below 150; off by less than 2 ** -116 of itself.
    """
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(x)
    if significand < float32.HIDDEN:
        lift: uint256 = 0
        significand, lift = float32.decode(float32.from_integer(0, significand))
        exponent = unsafe_sub(unsafe_add(exponent, lift), float32.SCALE)
    return self._sum(significand << (POINT - 23), unsafe_add(exponent, 23), is_binary)


@internal
@pure
def _sum(mantissa: uint256, exponent: uint256, is_binary: bool) -> (uint256, uint256):
    """
    @notice The logarithm of mantissa * 2 ** (exponent - SCALE), to base 2 or e.
    @dev The logarithm of m is at most 0.51 in magnitude, that of a power of two 0.69 or more.
    @param mantissa In units u, from 1 to 2.
    @return sign `SIGN` or 0.
    @return size In units w.
    """
    if mantissa >= MIDDLE:
        mantissa >>= 1
        exponent = unsafe_add(exponent, 1)
    is_below: bool = mantissa < ONE
    v: uint256 = unsafe_sub(mantissa, ONE)
    if is_below:
        v = unsafe_sub(ONE, mantissa)
    relative: uint256 = self.slope(v, is_below)
    unit: uint256 = FINE_LN_2
    if is_binary:
        relative = unsafe_mul(relative, INVERSE_LN_2) >> POINT
        unit = FINE_ONE
    low: uint256 = unsafe_mul(v, relative) >> (POINT - FINER)
    if exponent < float32.SCALE:
        high: uint256 = unsafe_mul(unsafe_sub(float32.SCALE, exponent), unit)
        if is_below:
            return float32.SIGN, unsafe_add(high, low)
        return float32.SIGN, unsafe_sub(high, low)
    high: uint256 = unsafe_mul(unsafe_sub(exponent, float32.SCALE), unit)
    if not is_below:
        return 0, unsafe_add(high, low)
    if high == 0:
        return float32.SIGN, low
    return 0, unsafe_sub(high, low)


@internal
@pure
def _round(sign: uint256, size: uint256) -> uint256:
    """
    @notice The number nearest to a sum, and +0 for 0.
    @dev Other sums are 2 ** 124 w or more.
    """
    if size == 0:
        return 0
    return float32.encode(sign, size >> COARSER, COARSE_UNIT)


@internal
@pure
def _of_any(x: uint256, is_binary: bool) -> uint256:
    """
    @notice The logarithm to base 2 or e: -infinity at the zeros, NaN below.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude == 0:
        return float32.SIGN | float32.INFINITY
    if x > float32.INFINITY:
        return float32.NAN
    if x == float32.INFINITY:
        return x
    sign: uint256 = 0
    size: uint256 = 0
    sign, size = self.of_number(x, is_binary)
    return self._round(sign, size)


@internal
@pure
def ln(x: uint256) -> uint256:
    """
    @notice The natural logarithm: -infinity at the zeros, NaN below.
    """
    return self._of_any(x, False)


@internal
@pure
def log2(x: uint256) -> uint256:
    """
    @notice The logarithm to base 2: -infinity at the zeros, NaN below.
    """
    return self._of_any(x, True)


@internal
@pure
def log1p(x: uint256) -> uint256:
    """
    @notice log(1 + x): the zeros keep their sign, -infinity at -1, NaN below.
    @dev Near 0 the exact significand is multiplied, so that a small x keeps its bits. From -1/2
         down 1 + x is a binary32 number; between that and -75 / 256 it is m / 2, with m exact.
         Otherwise 1 + x is 2 ** k * m where 2 ** k is a power of two next to x, or 1; it is below
         2 ** 253 u, and exact.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    if magnitude == 0 or x == float32.INFINITY:
        return x
    is_negative: bool = x >= float32.SIGN
    if is_negative and magnitude >= HALF:
        return self._of_any(float32.add(float32.ONE, x), False)
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(x)
    y: uint256 = exponential.fixed(significand, exponent)
    if magnitude < (NEAR_BELOW if is_negative else NEAR_ABOVE):
        product: uint256 = unsafe_mul(significand, self.slope(y, is_negative)) >> 24
        exponent = unsafe_sub(unsafe_add(exponent, 24), POINT)
        return float32.encode(x & float32.SIGN, product, exponent)
    sign: uint256 = 0
    size: uint256 = 0
    if is_negative:
        sign, size = self._sum(unsafe_sub(ONE, y) << 1, float32.SCALE - 1, False)
        return self._round(sign, size)
    doublings: uint256 = 0
    if magnitude >= float32.ONE:
        doublings = unsafe_sub(magnitude >> 23, 127)
    mantissa: uint256 = unsafe_add(ONE, y) >> doublings
    if mantissa >= 2 * ONE:
        mantissa >>= 1
        doublings = unsafe_add(doublings, 1)
    sign, size = self._sum(mantissa, unsafe_add(float32.SCALE, doublings), False)
    return self._round(sign, size)
