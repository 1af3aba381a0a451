# pragma version 0.4.3
"""
@title Correctly rounded erf and erfc of binary32 numbers
@license Apache-2.0
@notice The result is the binary32 number nearest to the value of the real function.
@dev Below 1 / 2, `_near` sums the Taylor series of erf(|x|), and from there on `_beyond` sums
     the trapezoidal rule for erfc(|x|). The other of the two functions is 1 less that, and
     erfc(-x) = 2 - erfc(x). Fixed-point numbers have units u = 2 ** -124, like those of
     `exponential`. Numbers are below 2 ** 127 where nothing else is said, and products below
     2 ** 254: nothing overflows.

     Error: both are off by less than 2 ** -95 of themselves. A difference from 1 or 2 is 0.47 or
     more, and off by less than 2 ** -94 of itself.

     Decision: all 2 ** 32 operands of both functions were tried, and no value is closer to a
     point half way between two binary32 numbers than 2 ** -33 of their distance, or 2 ** -57 of
     itself. An error below 2 ** -94 does not move the value across a half-way point, and it is
     rounded correctly. Results that are subnormal are rounded once, like the others. Where the
     fixed point drops a small term, the value is next to 1 or 2, and that is nearest.
"""

import exponential
import float32

POINT: constant(uint256) = exponential.POINT
ONE: constant(uint256) = 1 << POINT
TWO: constant(uint256) = 2 << POINT
# The exponent of a number in units u.
UNIT: constant(uint256) = float32.SCALE - POINT

# 1 / 2, 4, 8 and 11 as patterns. From 4 on erf is 1, and from 11 on erfc is 0.
NEAR: constant(uint256) = 126 << 23
FLAT: constant(uint256) = 129 << 23
WITHOUT_POLE: constant(uint256) = 130 << 23
VANISHING: constant(uint256) = 1_093_664_768
PATTERN_OF_TWO: constant(uint256) = 128 << 23

# From this exponent on a number is 1 / 2 or more, if its significand has 24 bits.
LEAST_BEYOND: constant(uint256) = float32.SCALE - 24

# 2 / sqrt(pi) in units u, and 16 * pi / 3 in units 2 ** -128.
TWO_OVER_ROOT_PI: constant(uint256) = 23_997_970_860_221_133_936_072_410_465_895_962_729
POLE_RATE: constant(uint256) = 5_701_485_781_679_822_655_251_628_656_863_310_844_270

# Number n is 3 / (4 * pi) * e ** (-9 * n * n / 64), number 0 half of that, in units 2 ** -176.
WEIGHT_0: constant(uint256) = 11_433_011_277_895_026_758_838_083_447_085_762_334_598_407_043_988_301
WEIGHT_1: constant(uint256) = 19_866_344_673_316_176_250_480_723_629_672_222_680_098_317_633_853_754
WEIGHT_2: constant(uint256) = 13_028_666_922_199_056_272_282_368_359_438_313_947_362_404_774_248_141
WEIGHT_3: constant(uint256) = 6_449_657_815_583_504_936_463_652_500_140_574_582_395_392_749_801_788
WEIGHT_4: constant(uint256) = 2_410_061_046_194_370_945_860_612_997_325_320_004_626_780_124_848_146
WEIGHT_5: constant(uint256) = 679_788_932_451_869_238_534_960_822_113_870_039_125_778_177_678_644
WEIGHT_6: constant(uint256) = 144_735_415_736_621_362_106_986_022_352_848_847_732_211_048_600_738
WEIGHT_7: constant(uint256) = 23_261_098_117_599_211_933_997_416_115_298_472_591_197_982_804_593
WEIGHT_8: constant(uint256) = 2_821_891_363_851_646_103_704_607_264_300_702_777_157_045_848_930
WEIGHT_9: constant(uint256) = 258_407_458_464_124_277_427_622_701_794_168_043_053_519_429_334
WEIGHT_10: constant(uint256) = 17_861_769_300_460_558_552_239_667_819_111_849_047_668_188_491
WEIGHT_11: constant(uint256) = 931_962_813_768_226_690_370_082_679_008_960_289_024_593_054
WEIGHT_12: constant(uint256) = 36_705_180_917_061_195_826_622_559_709_311_996_009_406_887
WEIGHT_13: constant(uint256) = 1_091_216_265_976_417_156_185_338_347_836_482_866_707_452
WEIGHT_14: constant(uint256) = 24_487_754_921_362_693_042_487_415_117_823_555_589_638
WEIGHT_15: constant(uint256) = 414_802_901_995_822_925_187_124_013_139_565_706_452
WEIGHT_16: constant(uint256) = 5_303_826_135_501_944_094_821_988_359_333_203_739
WEIGHT_17: constant(uint256) = 51_190_744_869_890_644_691_359_912_278_743_742
WEIGHT_18: constant(uint256) = 372_948_011_445_840_798_408_480_805_736_457
WEIGHT_19: constant(uint256) = 2_050_972_416_978_852_881_443_500_162_934
WEIGHT_20: constant(uint256) = 8_513_850_512_534_403_869_081_131_555
WEIGHT_21: constant(uint256) = 26_677_608_707_926_431_616_030_241
WEIGHT_22: constant(uint256) = 63_098_996_580_866_190_739_765


@internal
@pure
def erf(x: uint256) -> uint256:
    """
    @notice The error function: the zeros keep their sign.
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    if magnitude == 0:
        return x
    sign: uint256 = x & float32.SIGN
    if magnitude >= FLAT:
        return sign | float32.ONE
    value: uint256 = 0
    exponent: uint256 = 0
    if magnitude < NEAR:
        value, exponent = self._near(magnitude)
        return float32.encode(sign, value, exponent)
    value, exponent = self._beyond(magnitude)
    return float32.encode(sign, unsafe_sub(ONE, self._fixed(value, exponent)), UNIT)


@internal
@pure
def erfc(x: uint256) -> uint256:
    """
    @notice The complementary error function, 1 - erf(x).
    """
    magnitude: uint256 = x & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    is_negative: bool = x >= float32.SIGN
    value: uint256 = 0
    exponent: uint256 = 0
    if magnitude < NEAR:
        value, exponent = self._near(magnitude)
        value = self._fixed(value, exponent)
        if is_negative:
            return float32.encode(0, unsafe_add(ONE, value), UNIT)
        return float32.encode(0, unsafe_sub(ONE, value), UNIT)
    if is_negative:
        if magnitude >= FLAT:
            return PATTERN_OF_TWO
        value, exponent = self._beyond(magnitude)
        return float32.encode(0, unsafe_sub(TWO, self._fixed(value, exponent)), UNIT)
    if magnitude >= VANISHING:
        return 0
    value, exponent = self._beyond(magnitude)
    return float32.encode(0, value, exponent)


@internal
@pure
def _fixed(significand: uint256, exponent: uint256) -> uint256:
    """
    @notice significand * 2 ** (exponent - SCALE) in units u, rounded down.
    @dev The exponent is at most UNIT. A shift of 256 or more leaves 0.
    """
    return significand >> unsafe_sub(UNIT, exponent)


@internal
@pure
def _near(magnitude: uint256) -> (uint256, uint256):
    """
    @notice erf(x) for 0 <= x < 1 / 2, as a significand and an exponent.
    @dev It is 2 / sqrt(pi) * x times the sum of (-z) ** n / (n! * (2 * n + 1)) for z = x * x, up
         to n = 18 by Horner's rule. Partial sums lie between 0 and 1. The exponents decoded are
         875 or more, and UNIT + 99 at most.

         Error: the terms decrease and alternate, so that those left out are below
         z ** 19 / (19! * 39) < 2 ** -100. Cutting x and z is off by less than 2 u. Each step
         adds less than 2 u, for the coefficient and the product, and passes on a quarter of what
         it got: less than 4 u in all with that of z. x itself is exact and comes in last, as a
         number of 103 bits or more, so that the products cut off less than 2 ** -101 of the
         value each. Together, less than 2 ** -98 of the value.
    """
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(magnitude)
    significand <<= 102
    exponent = unsafe_sub(exponent, 102)
    square: uint256 = self._fixed(significand, exponent)
    square = unsafe_mul(square, square) >> POINT
    total: uint256 = ONE // 236_887_827_111_936_000
    total = unsafe_sub(ONE // 12_449_059_983_360_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 690_452_066_304_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 40_537_905_408_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 2_528_170_444_800, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 168_129_561_600, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 11_975_040_000, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 918_086_400, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 76_204_800, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 6_894_720, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 685_440, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 75_600, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 9_360, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 1_320, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 216, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 42, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 10, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE // 3, unsafe_mul(total, square) >> POINT)
    total = unsafe_sub(ONE, unsafe_mul(total, square) >> POINT)
    significand = unsafe_mul(significand, TWO_OVER_ROOT_PI) >> POINT
    return unsafe_mul(significand, total) >> POINT, exponent


@internal
@pure
def _beyond(magnitude: uint256) -> (uint256, uint256):
    """
    @notice erfc(x) for 1 / 2 <= x < 11, as a significand and an exponent.
    @dev erfc(x) is x * e ** (-x * x) / pi times the integral over all t of
         f(t) = e ** (-t * t) / (t * t + x * x). The trapezoidal rule with step h = 3 / 8, which
         is h times the sum of f(n * h) over all integers n, exceeds the integral by the residues
         of f(t) / (e ** (2 * pi * |Im t| / h) - 1) at +-i * x, if they lie between the lines
         Im t = +-H, and by its integrals along these lines. The residues add
         2 / (e ** (2 * pi * x / h) - 1) to erfc(x): `_pole`. The integrals add at most
         2 * x / sqrt(pi) * e ** (H * H - x * x) / (|H * H - x * x| * (e ** (2 * pi * H / h) - 1)),
         and erfc(x) is above 2 / sqrt(pi) * e ** (-x * x) / (x + sqrt(x * x + 2)). With
         H = pi / h + 1 for x < 8, and H = pi / h - 1 for x >= 8, where the residues lie
         outside, the integrals therefore add less than 2 ** -96 of erfc(x). The terms left out,
         from n = 23 on, are below 2 ** -106 of the first, 1 / (x * x).

         Range: x = m * 2 ** e with e between -24 and -20, so that the square is exact in units
         2 ** -48, and below 2 ** 55. Terms, with h / pi in the weights, are in units 2 ** -128.
         Their sum times x is e ** (x * x) * (erfc(x) + pole), at least 0.05 and less than 0.63,
         so that m times the sum, without its last 26 bits, is between 2 ** 117 and 2 ** 126. The
         exponent returned is at most UNIT - 3.

         Error: each of the 23 terms is cut by less than a unit, together less than 2 ** -115 of
         the sum. The two products cut off less than 2 ** -116. e ** (-x * x) is off by less than
         2 ** -116 of itself, and the pole, less than 2 ** -9 of erfc(x), by less than 2 ** -115
         of erfc(x). All in all, erfc(x) is off by less than 2 ** -95 of itself.
    """
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(magnitude)
    offset: uint256 = unsafe_sub(exponent, LEAST_BEYOND) << 1
    square: uint256 = unsafe_mul(significand, significand) << offset
    total: uint256 = unsafe_div(WEIGHT_0, square)
    total = unsafe_add(total, unsafe_div(WEIGHT_1, unsafe_add(square, 9 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_2, unsafe_add(square, 36 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_3, unsafe_add(square, 81 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_4, unsafe_add(square, 144 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_5, unsafe_add(square, 225 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_6, unsafe_add(square, 324 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_7, unsafe_add(square, 441 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_8, unsafe_add(square, 576 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_9, unsafe_add(square, 729 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_10, unsafe_add(square, 900 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_11, unsafe_add(square, 1_089 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_12, unsafe_add(square, 1_296 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_13, unsafe_add(square, 1_521 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_14, unsafe_add(square, 1_764 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_15, unsafe_add(square, 2_025 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_16, unsafe_add(square, 2_304 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_17, unsafe_add(square, 2_601 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_18, unsafe_add(square, 2_916 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_19, unsafe_add(square, 3_249 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_20, unsafe_add(square, 3_600 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_21, unsafe_add(square, 3_969 << 42)))
    total = unsafe_add(total, unsafe_div(WEIGHT_22, unsafe_add(square, 4_356 << 42)))
    power: uint256 = 0
    halvings: uint256 = 0
    power, halvings = self._decay(square << (POINT - 48))
    total = unsafe_mul(unsafe_mul(significand, total) >> 26, power) >> POINT
    value_exponent: uint256 = unsafe_sub(unsafe_sub(exponent, 102), halvings)
    if magnitude < WITHOUT_POLE:
        total = unsafe_sub(total, self._pole(significand, exponent, value_exponent))
    return total, value_exponent


@internal
@pure
def _pole(significand: uint256, exponent: uint256, unit: uint256) -> uint256:
    """
    @notice 2 / (e ** y - 1) for y = 16 * pi / 3 * x and x = significand * 2 ** (exponent - SCALE).
    @dev It is 2 * p / (1 - p) for p = e ** -y, at most e ** -8.3. x lies between 1 / 2 and 8, so
         that y is below 135. The quotient is below 2 ** 126. Its unit,
         2 ** (1 - POINT - halvings), is less than the result's by 2 ** 8 or more, for y exceeds
         x * x by 8.1 or more.

         Error: y is off by less than 2 u, p by less than 2 ** -115 of itself, and what is cut
         off is less than 2 units of the result.
    @param unit The exponent of the unit of the result: `exponent` less 102 and less the halvings
           of e ** (-x * x).
    """
    power: uint256 = 0
    halvings: uint256 = 0
    rate: uint256 = unsafe_mul(significand, POLE_RATE)
    power, halvings = self._decay(rate >> unsafe_sub(float32.SCALE + 4, exponent))
    quotient: uint256 = unsafe_div(power << POINT, unsafe_sub(ONE, power >> halvings))
    return quotient >> unsafe_sub(unsafe_add(halvings, unit), UNIT + 1)


@internal
@pure
def _decay(y: uint256) -> (uint256, uint256):
    """
    @notice e ** -y = power * 2 ** -halvings, with a power between 1 and 2 in units u.
    @dev y = k * ln 2 - r with r above 0 and at most ln 2, and k below 196.

         Error: LN_2 is short of ln 2 by less than u, hence r by less than 196 u, and e ** r by as
         much of itself; what the growth and the product add is less than 4 u. Together, less
         than 2 ** -116 of e ** -y.
    @param y In units u, below 135.
    """
    halvings: uint256 = unsafe_add(unsafe_div(y, exponential.LN_2), 1)
    rest: uint256 = unsafe_sub(unsafe_mul(halvings, exponential.LN_2), y)
    growth: uint256 = exponential.growth(rest)
    return unsafe_add(ONE, unsafe_mul(rest, growth) >> POINT), halvings
