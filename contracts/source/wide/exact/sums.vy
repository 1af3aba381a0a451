# pragma version 0.4.3
"""
@title The exact sum of binary32 numbers and of their products, and its one rounding
@license Apache-2.0
@notice A sum is 96 bytes, of which the first word is the lowest: bits 0 to 703 are the magnitude of
        the sum of the finite terms, in units of 2^-298, bit 704 says that it is negative, and bits
        705 to 708 that a term was NaN, +infinity, -infinity, anything but -0.
        offchain/arithmetic/exact/sums.py is the specification.
"""

import float32

# What a term is multiplied by that has no other factor.
ONE: constant(uint256) = float32.ONE

# Of the highest word: the magnitude, and what is above it.
HIGH: constant(uint256) = 2**192 - 1
IS_NEGATIVE: constant(uint256) = 1 << 192
HAS_NAN: constant(uint256) = 1 << 193
HAS_INFINITY: constant(uint256) = 1 << 194
HAS_NEGATIVE_INFINITY: constant(uint256) = 1 << 195
HAS_OTHER: constant(uint256) = 1 << 196
INFINITIES: constant(uint256) = HAS_INFINITY | HAS_NEGATIVE_INFINITY
FLAGS: constant(uint256) = HAS_NAN | INFINITIES | HAS_OTHER

# What `float32.decode` adds to the exponent of the least number.
LEAST_EXPONENT: constant(uint256) = float32.SCALE - 149
# The exponent of a unit, for `float32.encode`.
UNIT_EXPONENT: constant(uint256) = float32.SCALE - 298


@internal
@pure
def begin(x: uint256) -> uint256[3]:
    """
    @notice Return the sum of one number.
    @param x The bits of a binary32 number.
    @return The sum.
    """
    return self.add_product([0, 0, 0], x, ONE)


@internal
@pure
def add_product(total: uint256[3], x: uint256, y: uint256) -> uint256[3]:
    """
    @notice Return a sum with the product of two numbers added to it.
    @dev Exponents are at least LEAST_EXPONENT, and 253 more at most: a product is below 2^48 units
         times 2^506, and begins in the first or the second word. Magnitudes are below 2^704.
    @param total The sum; what is above its flags is dropped.
    @param x The bits of a binary32 number.
    @param y The bits of another one.
    @return The sum.
    """
    flags: uint256 = total[2] & FLAGS
    sign: uint256 = IS_NEGATIVE * convert((x ^ y) & float32.SIGN != 0, uint256)
    low: uint256 = 0
    middle: uint256 = 0
    high: uint256 = 0
    x_magnitude: uint256 = x & float32.MAGNITUDE
    y_magnitude: uint256 = y & float32.MAGNITUDE
    if max(x_magnitude, y_magnitude) >= float32.INFINITY:
        flags |= HAS_OTHER | self._classify(x_magnitude, y_magnitude, sign)
    elif x_magnitude != 0 and y_magnitude != 0:
        flags |= HAS_OTHER
        product: uint256 = 0
        factor: uint256 = 0
        places: uint256 = 0
        exponent: uint256 = 0
        product, places = float32.decode(x)
        factor, exponent = float32.decode(y)
        product = unsafe_mul(product, factor)
        places = unsafe_sub(unsafe_add(places, exponent), 2 * LEAST_EXPONENT)
        if places < 256:
            low = product << places
            middle = product >> unsafe_sub(256, places)
        else:
            middle = product << unsafe_sub(places, 256)
            high = product >> unsafe_sub(512, places)
    elif sign == 0:
        flags |= HAS_OTHER
    return self._add(total, low, middle, high, sign, flags)


@internal
@pure
def finish(total: uint256[3]) -> uint256:
    """
    @notice Return the bits of the binary32 number that is nearest to a sum.
    @dev What is encoded has 65 to 128 bits, and is followed by what only sets its sticky bit, or it
         has fewer and is all that there is.
    @param total The sum.
    @return The bits.
    """
    flags: uint256 = total[2] & FLAGS
    if flags & HAS_NAN != 0 or flags & INFINITIES == INFINITIES:
        return float32.NAN
    if flags & HAS_INFINITY != 0:
        return float32.INFINITY
    if flags & HAS_NEGATIVE_INFINITY != 0:
        return float32.SIGN | float32.INFINITY
    if flags & HAS_OTHER == 0:
        return float32.SIGN
    sign: uint256 = float32.SIGN * convert(total[2] & IS_NEGATIVE != 0, uint256)
    # The highest word that is not 0, those below it, and the exponent of its last bit.
    top: uint256 = total[2] & HIGH
    below: uint256 = total[1]
    rest: uint256 = total[0]
    exponent: uint256 = UNIT_EXPONENT + 512
    if top == 0:
        top = below
        below = rest
        rest = 0
        exponent = UNIT_EXPONENT + 256
    if top == 0:
        top = below
        below = 0
        exponent = UNIT_EXPONENT
    if top == 0:
        return sign
    if top >> 128 != 0:
        places: uint256 = 64 << convert(top >> 192 != 0, uint256)
        rest |= below | top << unsafe_sub(256, places)
        top >>= places
        exponent = unsafe_add(exponent, places)
    elif top >> 64 == 0 and exponent != UNIT_EXPONENT:
        rest |= below & (2**192 - 1)
        top = top << 64 | below >> 192
        exponent = unsafe_sub(exponent, 64)
    else:
        rest |= below
    return float32.encode(sign, top | convert(rest != 0, uint256), exponent)


@internal
@pure
def _classify(x: uint256, y: uint256, sign: uint256) -> uint256:
    # The flag of a product, given the magnitudes of its factors, one of which is no number.
    if max(x, y) > float32.INFINITY or min(x, y) == 0:
        return HAS_NAN
    if sign != 0:
        return HAS_NEGATIVE_INFINITY
    return HAS_INFINITY


@internal
@pure
def _add(
    total: uint256[3], low: uint256, middle: uint256, high: uint256, sign: uint256, flags: uint256
) -> uint256[3]:
    # A sum with a term of this magnitude and sign. Highest words are below 2^192.
    a_low: uint256 = total[0]
    a_middle: uint256 = total[1]
    a_high: uint256 = total[2] & HIGH
    b_low: uint256 = low
    b_middle: uint256 = middle
    b_high: uint256 = high
    kept: uint256 = total[2] & IS_NEGATIVE
    if kept == sign:
        b_low = unsafe_add(a_low, b_low)
        b_middle = unsafe_add(b_middle, convert(b_low < a_low, uint256))
        b_high = unsafe_add(b_high, convert(b_middle < middle, uint256))
        b_middle = unsafe_add(a_middle, b_middle)
        b_high = unsafe_add(b_high, convert(b_middle < a_middle, uint256))
        b_high = unsafe_add(a_high, b_high)
    else:
        if self._is_below(a_low, a_middle, a_high, b_low, b_middle, b_high):
            kept = sign
            a_low = low
            a_middle = middle
            a_high = high
            b_low = total[0]
            b_middle = total[1]
            b_high = total[2] & HIGH
        borrow: uint256 = convert(a_low < b_low, uint256)
        b_low = unsafe_sub(a_low, b_low)
        a_high = unsafe_sub(a_high, b_high)
        a_high = unsafe_sub(a_high, convert(a_middle < b_middle, uint256))
        b_middle = unsafe_sub(a_middle, b_middle)
        b_high = unsafe_sub(a_high, convert(b_middle < borrow, uint256))
        b_middle = unsafe_sub(b_middle, borrow)
    if b_low | b_middle | b_high == 0:
        kept = 0
    return [b_low, b_middle, b_high | kept | flags]


@internal
@pure
def _is_below(
    a_low: uint256,
    a_middle: uint256,
    a_high: uint256,
    b_low: uint256,
    b_middle: uint256,
    b_high: uint256,
) -> bool:
    # Whether one magnitude is below another.
    if a_high != b_high:
        return a_high < b_high
    if a_middle != b_middle:
        return a_middle < b_middle
    return a_low < b_low
