# pragma version 0.4.3
"""
@title IEEE 754 binary32 on bit patterns, in integer arithmetic
@license Apache-2.0
@notice A pattern is a number below 2 ** 32. Operands may be any NaN; every NaN result is `NAN`.
        Rounding is to nearest, ties to even, with subnormal numbers and signed zeros.
@dev A finite number is significand * 2 ** (exponent - SCALE) with natural numbers throughout.
     `encode` is the only place that rounds. A significand that has been cut carries a sticky
     bit: its last bit is set if anything but zeros was cut off, far below the bits that count.
"""

SIGN: constant(uint256) = 1 << 31
INFINITY: constant(uint256) = 255 << 23
NAN: constant(uint256) = 511 << 22
HALF: constant(uint256) = 126 << 23
ONE: constant(uint256) = 127 << 23

# The outcomes of `compare`.
LESS: constant(uint256) = 0
EQUAL: constant(uint256) = 1
GREATER: constant(uint256) = 2
UNORDERED: constant(uint256) = 3

# The directions of `to_integral`.
DOWNWARD: constant(uint256) = 0
UPWARD: constant(uint256) = 1
TOWARD_ZERO: constant(uint256) = 2
TO_NEAREST: constant(uint256) = 3

# The exponent of the number 1 as a significand of 1; keeps every exponent here above zero.
SCALE: constant(uint256) = 1_024

MAGNITUDE: constant(uint256) = SIGN - 1
HIDDEN: constant(uint256) = 1 << 23
FRACTION: constant(uint256) = HIDDEN - 1
FIELD: constant(uint256) = 255

# An exponent field of e, and of 1 for subnormal numbers, weighs the significand by
# 2 ** (e - 150), as an exponent of e + FIELD_OFFSET does.
FIELD_OFFSET: constant(uint256) = SCALE - 150

# The exponent of the leading bit of the least normal number, 2 ** -126.
LEAST_NORMAL: constant(uint256) = SCALE - 126

# Bit e of it says whether a field of e is that of special or subnormal numbers, or of zeros.
RARE: constant(uint256) = 1 | 1 << FIELD

# `encode` needs no search for a leading bit that is at this place or up to five above it, and
# drops all but 24 bits of a normal number.
HEAD: constant(uint256) = 122
DROPPED: constant(uint256) = HEAD - 23

# The position of the leading bit of n < 64, three bits each: 0, 0, 1, 1, 2 (4 times), 3 (8 times),
# 4 (16 times), 5 (32 times).
LEADING_BITS: constant(uint256) = (
    1 << 6 | 1 << 9 | 2 * (8**4 - 1) // 7 << 12 | 3 * (8**8 - 1) // 7 << 24
    | 4 * (8**16 - 1) // 7 << 48 | 5 * (8**32 - 1) // 7 << 96
)

# The shift after which `encode` finds the leading bit of a product of normal numbers, 46 or 47,
# with two places below it and one above it for a sum, and the one of such a product's addend
# that has the same effect.
LIFT: constant(uint256) = HEAD + 2 - 46
ADDEND_LIFT: constant(uint256) = HEAD + 2 - 23
# What to add to the sum of two exponent fields for the exponent of the shifted product.
PRODUCT_OFFSET: constant(uint256) = SCALE - 2 * 150 - LIFT


@internal
@pure
def encode(sign: uint256, significand: uint256, exponent: uint256) -> uint256:
    """
    @notice Rounds significand * 2 ** (exponent - SCALE): the one rounding.
    @dev It costs least for a significand of 2 ** HEAD or more; smaller ones are shifted up, by
         127 at most, to 2 ** 124 or more. `field` counts from the exponent of the least normal
         number, modulo 2 ** 256: it stands for a negative number, above -1,000, if it is not
         below 2 ** 12, and then taking it from `dropped` adds to that.

         `dropped` is at least DROPPED, so that one less is not negative. Up to 256 dropped bits
         every sum is below 2 ** 256. From 257 on `half` and the odd bit are 0, and sums may
         wrap, but the shift leaves 0 in any case, which is right.
    @param sign `SIGN` or 0.
    @param significand In [1, 2 ** 128); with 26 bits or more its last bit may be sticky.
    @param exponent Below 2 ** 12.
    @return The pattern of the nearest number.
    """
    aligned: uint256 = significand
    field: uint256 = unsafe_sub(exponent, LEAST_NORMAL - 23)
    head: uint256 = significand >> HEAD
    if head == 0:
        lift: uint256 = convert(significand < 2**64, uint256) << 6
        lift |= convert(significand << lift < 2**96, uint256) << 5
        lift |= convert(significand << lift < 2**112, uint256) << 4
        lift |= convert(significand << lift < 2**120, uint256) << 3
        lift |= convert(significand << lift < 2**124, uint256) << 2
        aligned = significand << lift
        field = unsafe_sub(field, lift)
        head = aligned >> HEAD

    # A head is below 64.
    dropped: uint256 = unsafe_add((LEADING_BITS >> unsafe_mul(head, 3)) & 7, DROPPED)
    field = unsafe_add(field, dropped)
    if field >= FIELD - 1:
        if field < 2**12:
            return sign | INFINITY
        dropped = unsafe_sub(dropped, field)
        field = 0
    # Half of the last place less one, and one more if the last place is odd: a tie goes to even.
    half: uint256 = 1 << unsafe_sub(dropped, 1)
    aligned = unsafe_add(aligned, unsafe_add(unsafe_sub(half, 1), (aligned >> dropped) & 1))
    # A leading bit of a normal number, and a carry out of the rounding, add one to the field.
    return sign | unsafe_add(field << 23, aligned >> dropped)


@internal
@pure
def decode(x: uint256) -> (uint256, uint256):
    """
    @notice Splits a finite pattern.
    @dev 255 + FIELD_OFFSET does not overflow.
    @return significand Below 2 ** 24; 0 for both zeros.
    @return exponent With |x| = significand * 2 ** (exponent - SCALE).
    """
    field: uint256 = (x >> 23) & FIELD
    if field == 0:
        return x & FRACTION, FIELD_OFFSET + 1
    return x & FRACTION | HIDDEN, unsafe_add(field, FIELD_OFFSET)


@internal
@pure
def is_nan(x: uint256) -> bool:
    """
    @notice Whether the pattern is a NaN.
    """
    return x & MAGNITUDE > INFINITY


@internal
@pure
def canonical(x: uint256) -> uint256:
    """
    @notice The pattern itself, or `NAN` for every NaN.
    """
    if x & MAGNITUDE > INFINITY:
        return NAN
    return x


@internal
@pure
def fma(x: uint256, y: uint256, z: uint256) -> uint256:
    """
    @notice x * y + z, rounded once.
    @dev Fields are below 2 ** 8 and significands below 2 ** 24, so that exponents stay below
         2 ** 11, the shifted product below 2 ** 126, the shifted addend, by ADDEND_LIFT places
         at most, below 2 ** 125, and their sum below 2 ** 127. Differences are of a larger and
         a smaller number, as the conditions around them say, but for `places`, which is
         negative, modulo 2 ** 256, if it is not below 2 ** 10.

         An addend whose last place is below the shifted product's unit is below 2 ** 24 units.
         The product is then a multiple of 2 ** 78 units, with half-way points at multiples of
         2 ** 76: it has one subnormal factor at most, and is 2 ** 101 units or more. So the
         addend can be any such number, and becomes a sticky bit.

         An addend that is shifted by more than ADDEND_LIFT places and not 0 has its last place
         above 2 ** 101 units. Shifted by 129 or more, the product is below an eighth of its last
         place, and cannot move it across a half-way point. Below that, the unit is raised, by 27
         bits at most of the 78 that are 0 in the product.
    """
    x_field: uint256 = (x >> 23) & FIELD
    y_field: uint256 = (y >> 23) & FIELD
    z_field: uint256 = (z >> 23) & FIELD
    product: uint256 = unsafe_mul(x & FRACTION | HIDDEN, y & FRACTION | HIDDEN) << LIFT
    exponent: uint256 = unsafe_add(unsafe_add(x_field, y_field), PRODUCT_OFFSET)
    addend: uint256 = z & FRACTION | HIDDEN
    places: uint256 = unsafe_sub(unsafe_add(z_field, FIELD_OFFSET), exponent)
    if ((RARE >> x_field) | (RARE >> y_field) | (RARE >> z_field)) & 1 == 1:
        if x_field == FIELD or y_field == FIELD or z_field == FIELD:
            return self._fma_of_specials(x, y, z)
        product, exponent = self._multiply_exactly(x, y)
        addend, places = self.decode(z)
        if product == 0:
            if addend == 0:
                return (x ^ y) & z & SIGN
            return z
        places = unsafe_sub(places, exponent)

    if places > ADDEND_LIFT:
        if places >= 2**10:
            addend = min(addend, 1)
            places = 0
        elif addend != 0:
            if places > 128:
                return z
            raised: uint256 = unsafe_sub(places, ADDEND_LIFT)
            product >>= raised
            exponent = unsafe_add(exponent, raised)
            places = ADDEND_LIFT
    addend <<= places

    if (x ^ y ^ z) & SIGN == 0:
        return self.encode(z & SIGN, unsafe_add(product, addend), exponent)
    if product > addend:
        return self.encode((x ^ y) & SIGN, unsafe_sub(product, addend), exponent)
    if product == addend:
        return 0
    return self.encode(z & SIGN, unsafe_sub(addend, product), exponent)


@internal
@pure
def _multiply_exactly(x: uint256, y: uint256) -> (uint256, uint256):
    """
    @notice The product of two finite numbers as an integer, times 2 ** LIFT, and its exponent.
    @dev Significands are below 2 ** 24, and exponents between 875 and 1,128.
    """
    x_significand: uint256 = 0
    y_significand: uint256 = 0
    x_exponent: uint256 = 0
    y_exponent: uint256 = 0
    x_significand, x_exponent = self.decode(x)
    y_significand, y_exponent = self.decode(y)
    product: uint256 = unsafe_mul(x_significand, y_significand) << LIFT
    return product, unsafe_sub(unsafe_add(x_exponent, y_exponent), SCALE + LIFT)


@internal
@pure
def _fma_of_specials(x: uint256, y: uint256, z: uint256) -> uint256:
    """
    @notice x * y + z where at least one operand is infinite or NaN.
    """
    x_magnitude: uint256 = x & MAGNITUDE
    y_magnitude: uint256 = y & MAGNITUDE
    if x_magnitude > INFINITY or y_magnitude > INFINITY or z & MAGNITUDE > INFINITY:
        return NAN
    if x_magnitude != INFINITY and y_magnitude != INFINITY:
        return z
    product: uint256 = INFINITY | ((x ^ y) & SIGN)
    if x_magnitude == 0 or y_magnitude == 0 or z == product ^ SIGN:
        return NAN
    return product


@internal
@pure
def add(x: uint256, y: uint256) -> uint256:
    """
    @notice x + y.
    """
    return self.fma(x, ONE, y)


@internal
@pure
def subtract(x: uint256, y: uint256) -> uint256:
    """
    @notice x - y.
    """
    return self.fma(x, ONE, y ^ SIGN)


@internal
@pure
def multiply(x: uint256, y: uint256) -> uint256:
    """
    @notice x * y; adding -0 changes no number, nor the sign of a zero.
    @dev Fields are below 2 ** 8 and significands below 2 ** 24.
    """
    x_field: uint256 = (x >> 23) & FIELD
    y_field: uint256 = (y >> 23) & FIELD
    if ((RARE >> x_field) | (RARE >> y_field)) & 1 == 1:
        return self.fma(x, y, SIGN)
    product: uint256 = unsafe_mul(x & FRACTION | HIDDEN, y & FRACTION | HIDDEN) << LIFT
    exponent: uint256 = unsafe_add(unsafe_add(x_field, y_field), PRODUCT_OFFSET)
    return self.encode((x ^ y) & SIGN, product, exponent)


@internal
@pure
def divide(x: uint256, y: uint256) -> uint256:
    """
    @notice x / y; a number by zero is infinite, and 0/0 and infinity/infinity are NaN.
    @dev The divisor is not zero. Significands are below 2 ** 24, and 2 ** 23 or more if normal,
         so that the quotient is 2 ** 79 or more and below 2 ** 126, and nothing overflows.
         Exponents differ by less than 255.

         A half-way point is then a multiple of 2 ** 54. So is the dividend less the point times
         the divisor: the quotient is the point, or 2 ** 30 or more away from it, and rounding
         does not see what is cut off.
    """
    x_magnitude: uint256 = x & MAGNITUDE
    y_magnitude: uint256 = y & MAGNITUDE
    if x_magnitude > INFINITY or y_magnitude > INFINITY:
        return NAN
    sign: uint256 = (x ^ y) & SIGN
    if x_magnitude == INFINITY or y_magnitude == 0:
        if y_magnitude == INFINITY or x_magnitude == 0:
            return NAN
        return sign | INFINITY
    if y_magnitude == INFINITY or x_magnitude == 0:
        return sign
    dividend: uint256 = 0
    divisor: uint256 = 0
    x_exponent: uint256 = 0
    y_exponent: uint256 = 0
    dividend, x_exponent = self.decode(x)
    divisor, y_exponent = self.decode(y)
    places: uint256 = HEAD + 1
    if divisor < HIDDEN:
        places = HEAD - 20
    exponent: uint256 = unsafe_sub(unsafe_add(x_exponent, SCALE), y_exponent)
    quotient: uint256 = unsafe_div(dividend << places, divisor)
    return self.encode(sign, quotient, unsafe_sub(exponent, places))


@internal
@pure
def root(radicand: uint256) -> uint256:
    """
    @notice Twice the integer square root, plus one if the root is not exact.
    @dev The square of a root is not above the radicand.
    @param radicand Below 2 ** 252.
    """
    whole: uint256 = isqrt(radicand)
    return whole << 1 | convert(unsafe_mul(whole, whole) != radicand, uint256)


@internal
@pure
def square_root(x: uint256) -> uint256:
    """
    @notice The square root; of -0 it is -0, of other negative numbers NaN.
    @dev Exponents lie between 875 and 1,128; the shift makes them even, so that halves are
         exact, and the radicand a multiple of 2 ** 222 below 2 ** 247, so that the root is
         2 ** 111 or more and below 2 ** 124.

         A half-way point is then a multiple of 2 ** 86, and its square of 2 ** 172. The radicand
         is that, or 2 ** 172 or more away from it, and the root 2 ** 47 or more from the point:
         rounding does not see what is cut off.
    """
    if x & MAGNITUDE == 0 or x == INFINITY:
        return x
    if x >= INFINITY:
        return NAN
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = self.decode(x)
    scaling: uint256 = 222 | (exponent & 1)
    exponent = unsafe_add(unsafe_sub(exponent, scaling), SCALE) >> 1
    return self.encode(0, isqrt(significand << scaling), exponent)


@internal
@pure
def negate(x: uint256) -> uint256:
    """
    @notice -x.
    """
    return self.canonical(x ^ SIGN)


@internal
@pure
def absolute(x: uint256) -> uint256:
    """
    @notice |x|.
    """
    return self.canonical(x & MAGNITUDE)


@internal
@pure
def compare(x: uint256, y: uint256) -> uint256:
    """
    @notice The order of two numbers: `LESS`, `EQUAL`, `GREATER`, or `UNORDERED` with a NaN.
    @dev The keys lie within SIGN of SIGN, and zeros share the key SIGN.
    """
    x_key: uint256 = x & MAGNITUDE
    y_key: uint256 = y & MAGNITUDE
    if x_key > INFINITY or y_key > INFINITY:
        return UNORDERED
    if x < SIGN:
        x_key = unsafe_add(SIGN, x_key)
    else:
        x_key = unsafe_sub(SIGN, x_key)
    if y < SIGN:
        y_key = unsafe_add(SIGN, y_key)
    else:
        y_key = unsafe_sub(SIGN, y_key)
    if x_key < y_key:
        return LESS
    if x_key == y_key:
        return EQUAL
    return GREATER


@internal
@pure
def maximum(x: uint256, y: uint256) -> uint256:
    """
    @notice The larger operand, +0 over -0; NaN if either is.
    """
    order: uint256 = self.compare(x, y)
    if order == UNORDERED:
        return NAN
    if order == EQUAL:
        return x & y
    if order == LESS:
        return y
    return x


@internal
@pure
def minimum(x: uint256, y: uint256) -> uint256:
    """
    @notice The smaller operand, -0 under +0; NaN if either is.
    """
    return self.negate(self.maximum(x ^ SIGN, y ^ SIGN))


@internal
@pure
def to_integral(x: uint256, direction: uint256) -> uint256:
    """
    @notice The integer next to x in a direction, with the sign of x if it is zero.
    @dev Numbers from 2 ** 23 on, those with a field of 150 or more, are integers. From 1 on a
         field is 127 or more, and adding one to the last bit of the whole part carries into the
         field, as it must. A whole part of one bit is odd, and so is its field.
    @param direction `DOWNWARD`, `UPWARD`, `TOWARD_ZERO` or `TO_NEAREST`, ties to even.
    """
    magnitude: uint256 = x & MAGNITUDE
    field: uint256 = magnitude >> 23
    if field >= 150:
        return self.canonical(x)
    is_away: bool = direction == convert(x < SIGN, uint256)
    if magnitude < ONE:
        if direction == TO_NEAREST:
            is_away = magnitude > HALF
        if is_away and magnitude != 0:
            return x & SIGN | ONE
        return x & SIGN
    one: uint256 = 1 << unsafe_sub(150, field)
    rest: uint256 = x & unsafe_sub(one, 1)
    if direction == TO_NEAREST:
        odd: uint256 = convert(x & one != 0, uint256)
        is_away = unsafe_add(rest << 1, odd) > one
    if is_away and rest != 0:
        return unsafe_add(unsafe_sub(x, rest), one)
    return unsafe_sub(x, rest)


@internal
@pure
def from_integer(sign: uint256, magnitude: uint256) -> uint256:
    """
    @notice The number nearest to an integer.
    @param sign `SIGN` or 0.
    @param magnitude Below 2 ** 128.
    """
    if magnitude == 0:
        return sign
    return self.encode(sign, magnitude, SCALE)


@internal
@pure
def to_integer(x: uint256, width: uint256) -> uint256:
    """
    @notice Truncates toward zero and saturates; NaN is 0.
    @dev Infinity decodes as 2 ** 128, beyond every bound, and numbers are below that.
         Differences are of exponents in order, or negate a number modulo 2 ** 256.
    @param width The width of the signed integer, 8, 32 or 64.
    @return The two's complement of the integer, in `width` bits.
    """
    if x & MAGNITUDE > INFINITY:
        return 0
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = self.decode(x)
    if exponent < SCALE:
        significand >>= unsafe_sub(SCALE, exponent)
    else:
        significand <<= unsafe_sub(exponent, SCALE)
    bound: uint256 = 1 << unsafe_sub(width, 1)
    if x < SIGN:
        return min(significand, unsafe_sub(bound, 1))
    return unsafe_sub(0, min(significand, bound)) & unsafe_sub(bound << 1, 1)
