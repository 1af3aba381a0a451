# pragma version 0.4.3
"""
@title Correctly rounded exp, exp2, expm1, sigmoid, tanh, sinh and cosh of binary32 numbers
@license Apache-2.0
@notice The result is the binary32 number nearest to the value of the real function.
@dev Everything is made of e ** r, for r from 0 to ln 2, and of its growth (e ** r - 1) / r, in
     fixed point with units u = 2 ** -124. With y = |x| = k * ln 2 + r, e ** y = 2 ** k * p where
     p = e ** r is in [1, 2].

     Range: y is below 104, or k at most 150. Numbers in units u are below 2 ** 128 where nothing
     else is said; products and dividends are below 2 ** 252.

     Error: LN_2 is short of ln 2 by less than 1 u, hence r is off by less than 151 u, and p by
     less than 2 ** -116 of itself. e ** y - 1 keeps 100 bits or more where k = 0, and where k > 0
     it is e ** y / 2 or more: in either case it is off by less than 2 ** -99 of itself. A
     quotient or product that follows cuts off less than 2 ** -99 more. Every result is off by
     less than 2 ** -97 of itself.

     Decision: all 2 ** 32 operands of every function were tried. No value of exp, expm1, tanh,
     sinh or cosh is nearer than 2 ** -32 ulp to a point half way between two binary32 numbers,
     none of exp2 nearer than 2 ** -35 ulp, and none of sigmoid nearer than 2 ** -53 ulp (it is
     the value at -2 ** -24), more than 2 ** -78 of itself. An error below 2 ** -97 does not
     move a value across a half-way point. The values that are half way (exp2 of -150) or binary32
     numbers (exp2 of integers, all values at 0) come out exactly. Where x is so small that r is
     0, the value lies next to 1, 0.5 or x, and that is the result.
"""

import float32

POINT: constant(uint256) = 124
ONE: constant(uint256) = 1 << POINT
# The exponent of a number in units u.
UNIT: constant(uint256) = float32.SCALE - POINT
# ln 2 in units u, rounded down.
LN_2: constant(uint256) = 14_741_610_201_594_580_883_621_508_922_759_655_274
LEVELS: constant(uint256) = 12

# From here on a result is its limit: 128, 150, 89, 104, 18, 10 and 90 as patterns.
INFINITE_EXP2: constant(uint256) = 1_124_073_472
VANISHING_EXP2: constant(uint256) = 1_125_515_264
INFINITE_EXP: constant(uint256) = 1_118_961_664
VANISHING_EXP: constant(uint256) = 1_120_927_744
FLAT_EXPM1: constant(uint256) = 1_099_956_224
FLAT_TANH: constant(uint256) = 1_092_616_192
INFINITE_SINH: constant(uint256) = 1_119_092_736


@internal
@pure
def growth(rest: uint256) -> uint256:
    """
    @notice (e ** r - 1) / r in units u, from 1 to 1.45.
    @dev It is 2 / (c - r), where c = r / tanh(r / 2) is Lambert's continued fraction
         2 + r ** 2 / (6 + r ** 2 / (10 + ...)), here with 12 levels below the first.

         Range: the denominator c_n of level n is between 4 * n + 2 and 4 * n + 2.09. The square is
         below 2 ** 247, and c - r at least 1.38.

         Error: a change of c_n moves c_(n - 1) by r ** 2 / c_n ** 2 of it, less than 1 / 74. What
         is left out below c_12 is less than r ** 2 / 54, and moves c by less than 2 ** -129, the
         product of all those factors. Each quotient is cut by less than 1 u, which moves c by
         less than 1.02 u in all. The result is off by less than 3 u.
    @param rest r in units u, at most ln 2.
    """
    square: uint256 = unsafe_mul(rest, rest)
    term: uint256 = (4 * LEVELS + 2) << POINT
    fraction: uint256 = term
    for i: uint256 in range(LEVELS):
        term = unsafe_sub(term, 4 << POINT)
        fraction = unsafe_add(term, unsafe_div(square, fraction))
    return unsafe_div(ONE << (POINT + 1), unsafe_sub(fraction, rest))


@internal
@pure
def fixed(significand: uint256, exponent: uint256) -> uint256:
    """
    @notice significand * 2 ** (exponent - SCALE) in units u, rounded down.
    @dev Neither difference is negative.
    @param significand Below 2 ** 24.
    @param exponent Of a finite binary32 number, or one more: the result is below 2 ** 253.
    """
    if exponent < UNIT:
        return significand >> unsafe_sub(UNIT, exponent)
    return significand << unsafe_sub(exponent, UNIT)


@internal
@pure
def power_of_two(y: uint256, is_negative: bool) -> (uint256, uint256):
    """
    @notice 2 ** y, or 2 ** -y: exact if y is an integer.
    @dev y = k + f: 2 ** f = e ** (f * ln 2), and 2 ** -f is its reciprocal. The product with
         LN_2 is off by less than 2 u, its power by less than 8 u.
    @param y In units u, at most 152.
    @return significand From 2 ** 123 to 2 ** 125; off by less than 2 ** -120 of itself.
    @return exponent The power is significand * 2 ** (exponent - SCALE).
    """
    whole: uint256 = y >> POINT
    rest: uint256 = unsafe_mul(y & (ONE - 1), LN_2) >> POINT
    power: uint256 = unsafe_add(ONE, unsafe_mul(rest, self.growth(rest)) >> POINT)
    if is_negative:
        return unsafe_div(ONE << POINT, power), unsafe_sub(UNIT, whole)
    return power, unsafe_add(UNIT, whole)


@internal
@pure
def _expand(x: uint256, scaling: uint256) -> (uint256, uint256, uint256, uint256):
    """
    @notice e ** y and e ** y - 1 for y = |x| * 2 ** scaling.
    @dev k * LN_2 is not above y, and below 2 ** 132. For k = 0 the exact significand is
         multiplied, so that a small y keeps its bits; the product is ONE or more, and y itself
         where r is 0; for y = 0 it is 0. For k > 0 p is above 2 ** -k.
    @param scaling 0 or 1.
    @return power p in units u.
    @return doublings k.
    @return excess Below 2 ** 125: e ** y - 1 is excess * 2 ** (exponent - SCALE).
    @return exponent
    """
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(x)
    exponent = unsafe_add(exponent, scaling)
    rest: uint256 = self.fixed(significand, exponent)
    doublings: uint256 = unsafe_div(rest, LN_2)
    rest = unsafe_sub(rest, unsafe_mul(doublings, LN_2))
    relative: uint256 = self.growth(rest)
    power: uint256 = unsafe_add(ONE, unsafe_mul(rest, relative) >> POINT)
    if doublings == 0:
        excess: uint256 = unsafe_mul(significand, relative) >> 24
        return power, 0, excess, unsafe_sub(unsafe_add(exponent, 24), POINT)
    return power, doublings, unsafe_sub(power, ONE >> doublings), unsafe_add(UNIT, doublings)


@internal
@pure
def exp(x: uint256) -> uint256:
    """
    @notice e ** x.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    is_negative: bool = x >= float32.SIGN
    if is_negative and magnitude >= VANISHING_EXP:
        return 0
    if not is_negative and magnitude >= INFINITE_EXP:
        return float32.INFINITY
    power: uint256 = 0
    doublings: uint256 = 0
    excess: uint256 = 0
    exponent: uint256 = 0
    power, doublings, excess, exponent = self._expand(x, 0)
    if is_negative:
        return float32.encode(0, unsafe_div(ONE << POINT, power), unsafe_sub(UNIT, doublings))
    return float32.encode(0, power, unsafe_add(UNIT, doublings))


@internal
@pure
def exp2(x: uint256) -> uint256:
    """
    @notice 2 ** x.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    is_negative: bool = x >= float32.SIGN
    if is_negative and magnitude >= VANISHING_EXP2:
        return 0
    if not is_negative and magnitude >= INFINITE_EXP2:
        return float32.INFINITY
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(x)
    y: uint256 = self.fixed(significand, exponent)
    significand, exponent = self.power_of_two(y, is_negative)
    return float32.encode(0, significand, exponent)


@internal
@pure
def expm1(x: uint256) -> uint256:
    """
    @notice e ** x - 1: the zeros keep their sign.
    @dev For x < 0 it is -(e ** y - 1) / e ** y.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    if magnitude == 0:
        return x
    is_negative: bool = x >= float32.SIGN
    if is_negative and magnitude >= FLAT_EXPM1:
        return float32.SIGN | float32.ONE
    if not is_negative and magnitude >= INFINITE_EXP:
        return float32.INFINITY
    power: uint256 = 0
    doublings: uint256 = 0
    excess: uint256 = 0
    exponent: uint256 = 0
    power, doublings, excess, exponent = self._expand(x, 0)
    if is_negative:
        quotient: uint256 = unsafe_div(excess << POINT, power)
        return float32.encode(float32.SIGN, quotient, unsafe_sub(exponent, doublings))
    return float32.encode(0, excess, exponent)


@internal
@pure
def sigmoid(x: uint256) -> uint256:
    """
    @notice 1 / (1 + e ** -x).
    @dev It is e ** y / (e ** y + 1), or 1 / (e ** y + 1) for x < 0; all is divided by 2 ** k.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    is_negative: bool = x >= float32.SIGN
    if magnitude >= VANISHING_EXP:
        return 0 if is_negative else float32.ONE
    power: uint256 = 0
    doublings: uint256 = 0
    excess: uint256 = 0
    exponent: uint256 = 0
    power, doublings, excess, exponent = self._expand(x, 0)
    divisor: uint256 = unsafe_add(power, ONE >> doublings)
    if is_negative:
        quotient: uint256 = unsafe_div(ONE << POINT, divisor)
        return float32.encode(0, quotient, unsafe_sub(UNIT, doublings))
    return float32.encode(0, unsafe_div(power << POINT, divisor), UNIT)


@internal
@pure
def tanh(x: uint256) -> uint256:
    """
    @notice The hyperbolic tangent: the zeros keep their sign.
    @dev With d = e ** (2 * y) - 1 it is d / (d + 2); d + 2 is divided by 2 ** k.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    if magnitude == 0:
        return x
    sign: uint256 = x & float32.SIGN
    if magnitude >= FLAT_TANH:
        return sign | float32.ONE
    power: uint256 = 0
    doublings: uint256 = 0
    excess: uint256 = 0
    exponent: uint256 = 0
    power, doublings, excess, exponent = self._expand(x, 1)
    quotient: uint256 = unsafe_div(excess << POINT, unsafe_add(power, ONE >> doublings))
    return float32.encode(sign, quotient, unsafe_sub(exponent, doublings))


@internal
@pure
def sinh(x: uint256) -> uint256:
    """
    @notice The hyperbolic sine: the zeros keep their sign.
    @dev It is (e ** y - 1) * (1 + e ** -y) / 2.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    if magnitude == 0:
        return x
    sign: uint256 = x & float32.SIGN
    if magnitude >= INFINITE_SINH:
        return sign | float32.INFINITY
    power: uint256 = 0
    doublings: uint256 = 0
    excess: uint256 = 0
    exponent: uint256 = 0
    power, doublings, excess, exponent = self._expand(x, 0)
    inverse: uint256 = unsafe_div(ONE << POINT, power) >> doublings
    product: uint256 = unsafe_mul(excess, unsafe_add(ONE, inverse)) >> POINT
    return float32.encode(sign, product, unsafe_sub(exponent, 1))


@internal
@pure
def cosh(x: uint256) -> uint256:
    """
    @notice The hyperbolic cosine.
    @dev It is 2 ** (k - 1) * (p + 2 ** (-2 * k) / p).
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    if magnitude >= INFINITE_SINH:
        return float32.INFINITY
    power: uint256 = 0
    doublings: uint256 = 0
    excess: uint256 = 0
    exponent: uint256 = 0
    power, doublings, excess, exponent = self._expand(x, 0)
    inverse: uint256 = unsafe_div(ONE << POINT, power) >> (doublings << 1)
    return float32.encode(0, unsafe_add(power, inverse), unsafe_add(UNIT - 1, doublings))
