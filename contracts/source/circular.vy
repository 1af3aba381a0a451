# pragma version 0.4.3
"""
@title Correctly rounded sin, cos and tan of binary32 numbers
@license Apache-2.0
@notice The result is the binary32 number nearest to the value of the real function, for every
        finite operand. Infinities have none: the result is NaN.
@dev |x| is a number of quarter turns and a rest with an angle a of at most pi / 4 either way.
     Fixed-point numbers have units u = 2 ** -126. They are at most 2 ** 126, the angle of a
     quarter turn is below 2 ** 127, and products are below 2 ** 253: nothing overflows.

     Error: `_reduce` gives a with an error below 2 ** -94 of itself. This moves its sine, cosine
     and tangent by less than pi / 2 times as much of themselves. The series, products and
     quotients that follow cut off less than 2 ** -94 more. Every result is off by less than
     2 ** -92 of itself.

     Decision: all 2 ** 32 operands of the three functions were tried, and no value is closer to a
     point half way between two binary32 numbers than 2 ** -32 of their distance, or 2 ** -56 of
     itself. An error below 2 ** -92 does not move the value across a half-way point, and it is
     rounded correctly. No value is half way, nor a binary32 number except at 0. Where x is so
     small that a series comes out as 1, the value is next to x, or 1, and that is the result.
"""

import float32

POINT: constant(uint256) = 126
ONE: constant(uint256) = 1 << POINT
# The exponent of a number in units u.
UNIT: constant(uint256) = float32.SCALE - POINT

# Operands below 1 / 2, by pattern, are not reduced.
SMALL: constant(uint256) = 126 << 23

# From this exponent on a number is 1 / 2 or more, if its significand has 24 bits.
LEAST_REDUCED: constant(uint256) = float32.SCALE - 24

# 2 / pi = (TURNS + MORE_TURNS * 2 ** -128) * 2 ** -230, rounded down, and pi / 2 in units u.
TURNS: constant(uint256) = (
    1_098_447_047_058_148_710_457_028_424_527_632_811_774_283_130_880_410_771_149_818_061_974_263
)
MORE_TURNS: constant(uint256) = 232_538_808_359_636_891_959_765_370_801_482_349_186
QUARTER_TURN: constant(uint256) = 133_628_573_008_120_843_482_460_046_645_233_847_913

# A phase is a number of quarter turns modulo 4, times 2 ** 254.
PHASE_POINT: constant(uint256) = 254
HALF: constant(uint256) = 1 << (PHASE_POINT - 1)
PHASE_FRACTION: constant(uint256) = (1 << PHASE_POINT) - 1


@internal
@pure
def sin(x: uint256) -> uint256:
    """
    @notice The sine of an angle in radians: the zeros keep their sign.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude >= float32.INFINITY:
        return float32.NAN
    if magnitude == 0:
        return x
    return self._sine_of_turned(x & float32.SIGN, magnitude, 0)


@internal
@pure
def cos(x: uint256) -> uint256:
    """
    @notice The cosine of an angle in radians: the sine a quarter turn later.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude >= float32.INFINITY:
        return float32.NAN
    return self._sine_of_turned(0, magnitude, 1)


@internal
@pure
def tan(x: uint256) -> uint256:
    """
    @notice The tangent of an angle in radians: the zeros keep their sign.
    @dev After an odd number of quarter turns it is -1 / tan of the rest. The operand is then not
         small, and the sine of the rest above 2 ** -30: the quotient lies between 2 ** 94 and
         2 ** 126, where a quotient near the lower end has a sine near 0.7.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude >= float32.INFINITY:
        return float32.NAN
    if magnitude == 0:
        return x
    quarters: uint256 = 0
    sign: uint256 = 0
    angle: uint256 = 0
    exponent: uint256 = 0
    quarters, sign, angle, exponent = self._reduce(magnitude)
    square: uint256 = self._square(angle, exponent)
    sine: uint256 = self._sine(angle, square)
    cosine: uint256 = self._cosine(square)
    sign ^= x & float32.SIGN
    if quarters & 1 == 0:
        return float32.encode(sign, unsafe_div(sine << POINT, cosine), exponent)
    return float32.encode(
        sign ^ float32.SIGN, unsafe_div(cosine << 95, sine), float32.SCALE - 95
    )


@internal
@pure
def _sine_of_turned(sign: uint256, magnitude: uint256, turn: uint256) -> uint256:
    """
    @notice The sine of |x| and `turn` quarter turns, with a factor of -1 if `sign` is set.
    @dev The number of quarter turns is at most 4. After an odd number the sine is the cosine of
         the rest, and after two more it is negative.
    """
    quarters: uint256 = 0
    rest_sign: uint256 = 0
    angle: uint256 = 0
    exponent: uint256 = 0
    quarters, rest_sign, angle, exponent = self._reduce(magnitude)
    quarters = unsafe_add(quarters, turn)
    square: uint256 = self._square(angle, exponent)
    result_sign: uint256 = sign ^ ((quarters & 2) << 30)
    if quarters & 1 != 0:
        return float32.encode(result_sign, self._cosine(square), UNIT)
    return float32.encode(result_sign ^ rest_sign, self._sine(angle, square), exponent)


@internal
@pure
def _reduce(magnitude: uint256) -> (uint256, uint256, uint256, uint256):
    """
    @notice Splits a finite number into quarter turns, modulo 4, and the nearest rest.
    @dev x = m * 2 ** e, from 1 / 2 on with e between -24 and 104. Its phase is m times the bits of
         2 / pi that weigh from 2 ** (1 - e) down to 2 ** (-254 - e), cut off there. Those above
         add multiples of 4 quarter turns, modulo which the product, and its sum with one half,
         are meant to wrap. The two constants hold 2 / pi from 2 ** 25 down to 2 ** -358, and are
         shifted by 128 or less. The last two differences are not negative.

         Error: the phase is short by less than m < 2 ** 24 of its last places, or 2 ** -230. The
         rest without its last 128 bits is off by less than 1.01 u, which makes 1.6 u of the
         angle, and the product with pi / 2 adds less than 1.3 u. None of these operands is closer
         to a multiple of pi / 2 than 2 ** -30 quarter turns, as the convergents of
         2 ** e * 2 / pi say (16,367,173 * 2 ** 72 is nearest), so that the angle is above
         2 ** -30, and off by less than 2 ** -94 of itself. A small angle is exact.
    @return quarters 0 to 3.
    @return sign `float32.SIGN` if the rest is negative, 0 if not.
    @return angle Below 2 ** 126: |rest| is angle * 2 ** (exponent - SCALE).
    @return exponent `UNIT`, or less for a small operand.
    """
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(magnitude)
    if magnitude < SMALL:
        return 0, 0, significand << 102, unsafe_sub(exponent, 102)
    offset: uint256 = unsafe_sub(exponent, LEAST_REDUCED)
    turns: uint256 = (TURNS << offset) | (MORE_TURNS >> unsafe_sub(128, offset))
    phase: uint256 = unsafe_add(unsafe_mul(significand, turns), HALF)
    quarters: uint256 = phase >> PHASE_POINT
    rest: uint256 = phase & PHASE_FRACTION
    sign: uint256 = 0
    if rest < HALF:
        sign = float32.SIGN
        rest = unsafe_sub(HALF, rest)
    else:
        rest = unsafe_sub(rest, HALF)
    return quarters, sign, unsafe_mul(rest >> 128, QUARTER_TURN) >> POINT, UNIT


@internal
@pure
def _square(angle: uint256, exponent: uint256) -> uint256:
    """
    @notice The square of angle * 2 ** (exponent - SCALE) in units u.
    @dev The exponent is at most UNIT. A shift of 256 or more leaves 0. The angle is off by less
         than 3 u, or is cut by less than 1 u, and is below 0.79: its square is off by less
         than 6 u.
    """
    fixed: uint256 = angle >> unsafe_sub(UNIT, exponent)
    return unsafe_mul(fixed, fixed) >> POINT


@internal
@pure
def _sine(angle: uint256, square: uint256) -> uint256:
    """
    @notice The sine of an angle a in the angle's own units.
    @dev sin(a) / a is the sum of (-z) ** n / (2 * n + 1)! for z = a * a < 0.617, up to n = 12 by
         Horner's rule. Partial sums lie between 0 and 1.

         Error: the terms decrease and alternate, so that those left out are below
         z ** 13 / 27! < 2 ** -102. Each step adds less than 2 u, for the coefficient and the
         product, and passes on z times what it got: less than 6 u in all, and 2 u for the
         error of the square: the sum is off by less than 2 ** -101 of itself. The product cuts
         off less than a unit, 2 ** -96 of it or less; where the sum is 1 it is exact.
    @param angle Above 2 ** 96, or so small that the sum is 1.
    @param square z in units u.
    """
    total: uint256 = ONE // 15_511_210_043_330_985_984_000_000
    total = unsafe_sub(
        ONE // 25_852_016_738_884_976_640_000, unsafe_mul(total, square) >> POINT
    )
    total = unsafe_sub(ONE // 51_090_942_171_709_440_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 121_645_100_408_832_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 355_687_428_096_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 1_307_674_368_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 6_227_020_800, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 39_916_800, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 362_880, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 5_040, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 120, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 6, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE, unsafe_mul(total, square) >> POINT)
    return unsafe_mul(angle, total) >> POINT


@internal
@pure
def _cosine(square: uint256) -> uint256:
    """
    @notice The cosine of an angle a in units u.
    @dev It is the sum of (-z) ** n / (2 * n)! for z = a * a < 0.617, up to n = 13 by Horner's
         rule. Partial sums lie between 0 and 1.

         Error: the terms left out are below z ** 14 / 28! < 2 ** -107, and the steps add less
         than 6 u, the square less than 3 u: together less than 2 ** -106 of the cosine.
    @param square z in units u.
    """
    total: uint256 = ONE // 403_291_461_126_605_635_584_000_000
    total = unsafe_sub(
        ONE // 620_448_401_733_239_439_360_000, unsafe_mul(total, square) >> POINT
    )
    total = unsafe_sub(ONE // 1_124_000_727_777_607_680_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 2_432_902_008_176_640_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 6_402_373_705_728_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 20_922_789_888_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 87_178_291_200, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 479_001_600, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 3_628_800, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 40_320, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 720, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 24, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 2, unsafe_mul(total, square) >> POINT)
    return unsafe_sub(ONE, unsafe_mul(total, square) >> POINT)
