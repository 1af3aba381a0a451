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

# `encode` moves the leading bit here, and drops all but 24 bits of a normal number.
TOP_BIT: constant(uint256) = 127
DROPPED: constant(uint256) = TOP_BIT - 23

# The position of the leading bit of n < 16, two bits each: 0, 0, 1, 1, 2 (4 times), 3 (8 times).
LEADING_BITS: constant(uint256) = 4_294_945_360


@internal
@pure
def encode(sign: uint256, significand: uint256, exponent: uint256) -> uint256:
    """
    @notice Rounds significand * 2 ** (exponent - SCALE): the one rounding.
    @dev `leading <= TOP_BIT` and `DROPPED <= dropped`, so that differences are not negative. Up
         to 256 dropped bits every sum is below 2 ** 256. From 257 on `half` and `odd` are 0, and
         sums may wrap, but the shift leaves 0 in any case, which is right.
    @param sign `SIGN` or 0.
    @param significand In [1, 2 ** 128); with 26 bits or more its last bit may be sticky.
    @param exponent Below 2 ** 12.
    @return The pattern of the nearest number.
    """
    leading: uint256 = convert(significand >> 64 != 0, uint256) << 6
    leading |= convert(significand >> leading > 4_294_967_295, uint256) << 5
    leading |= convert(significand >> leading > 65_535, uint256) << 4
    leading |= convert(significand >> leading > 255, uint256) << 3
    leading |= convert(significand >> leading > 15, uint256) << 2
    leading |= (LEADING_BITS >> (significand >> leading << 1)) & 3

    aligned: uint256 = significand << unsafe_sub(TOP_BIT, leading)
    top: uint256 = unsafe_add(leading, exponent)
    dropped: uint256 = DROPPED
    field: uint256 = 0
    if top < LEAST_NORMAL:
        dropped = unsafe_sub(LEAST_NORMAL + DROPPED, top)
    else:
        field = unsafe_sub(top, LEAST_NORMAL) << 23
    # Half of the last place less one, and one more if the last place is odd: a tie goes to even.
    odd: uint256 = (aligned >> dropped) & 1
    half: uint256 = 1 << unsafe_sub(dropped, 1)
    kept: uint256 = unsafe_add(unsafe_add(aligned, unsafe_sub(half, 1)), odd) >> dropped
    # A leading bit of a normal number, and a carry out of the rounding, add one to the field.
    return sign | min(unsafe_add(field, kept), INFINITY)


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
         2 ** 11, the product below 2 ** 48, and no sum or product of them overflows.
         Differences are of a larger and a smaller number, as the conditions around them say.
         Shifted terms, and their sum, are below 2 ** 81.

         A product below 2 ** 48 units of a number whose last place is 2 ** 51 units or more
         cannot move it across a half-way point. A product that exceeds the addend's exponent
         has one subnormal factor at most, and is 2 ** 23 or more: shifted by 32, it is a
         multiple of 2 ** 32 with half-way points at multiples of 2 ** 30, and an addend below
         2 ** 24 can be any such number: it becomes a sticky bit.
    """
    x_field: uint256 = (x >> 23) & FIELD
    y_field: uint256 = (y >> 23) & FIELD
    z_field: uint256 = (z >> 23) & FIELD
    if x_field == FIELD or y_field == FIELD or z_field == FIELD:
        return self._fma_of_specials(x, y, z)

    product: uint256 = x & FRACTION
    if x_field == 0:
        x_field = 1
    else:
        product |= HIDDEN
    if y_field == 0:
        product = unsafe_mul(product, y & FRACTION)
        y_field = 1
    else:
        product = unsafe_mul(product, y & FRACTION | HIDDEN)
    addend: uint256 = z & FRACTION
    if z_field == 0:
        z_field = 1
    else:
        addend |= HIDDEN

    sign: uint256 = (x ^ y) & SIGN
    if product == 0:
        if addend == 0:
            return sign & z
        return z
    # Both in units of 2 ** -300.
    product_exponent: uint256 = unsafe_add(x_field, y_field)
    addend_exponent: uint256 = unsafe_add(z_field, 150)
    if addend == 0:
        addend_exponent = product_exponent
    exponent: uint256 = 0
    if product_exponent < addend_exponent:
        gap: uint256 = unsafe_sub(addend_exponent, product_exponent)
        if gap > 50:
            return z
        addend <<= gap
        exponent = unsafe_add(product_exponent, SCALE - 300)
    else:
        gap: uint256 = unsafe_sub(product_exponent, addend_exponent)
        if gap > 32:
            gap = 32
            addend = 1
        product <<= gap
        exponent = unsafe_sub(unsafe_add(product_exponent, SCALE - 300), gap)

    if sign == z & SIGN:
        return self.encode(sign, unsafe_add(product, addend), exponent)
    if product > addend:
        return self.encode(sign, unsafe_sub(product, addend), exponent)
    if product == addend:
        return 0
    return self.encode(z & SIGN, unsafe_sub(addend, product), exponent)


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
    """
    return self.fma(x, y, SIGN)


@internal
@pure
def divide(x: uint256, y: uint256) -> uint256:
    """
    @notice x / y; a number by zero is infinite, and 0/0 and infinity/infinity are NaN.
    @dev The divisor is not zero. Significands are below 2 ** 24, so that the quotient has 27
         bits or more and is below 2 ** 74, nothing overflows, and the remainder is at least 0.
         Exponents differ by less than 255.
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
    dividend <<= 50
    quotient: uint256 = unsafe_div(dividend, divisor)
    inexact: uint256 = convert(unsafe_mul(quotient, divisor) != dividend, uint256)
    exponent: uint256 = unsafe_sub(unsafe_add(x_exponent, SCALE - 51), y_exponent)
    return self.encode(sign, quotient << 1 | inexact, exponent)


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
         exact, and the radicand at least 2 ** 52, so that the root has 27 bits or more.
    """
    if x & MAGNITUDE == 0 or x == INFINITY:
        return x
    if x >= INFINITY:
        return NAN
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = self.decode(x)
    scaling: uint256 = 52 | (exponent & 1)
    exponent = unsafe_add(unsafe_sub(exponent, scaling), SCALE) >> 1
    return self.encode(0, self.root(significand << scaling), unsafe_sub(exponent, 1))


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
    @dev A number has fraction bits only if its exponent is below SCALE. A shift of 25 is more
         than a significand has bits, so that the whole part of a smaller number is 0, and what
         is left less than half. No sum is above 2 ** 26.
    @param direction `DOWNWARD`, `UPWARD`, `TOWARD_ZERO` or `TO_NEAREST`, ties to even.
    """
    if x & MAGNITUDE >= INFINITY:
        return self.canonical(x)
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = self.decode(x)
    if exponent >= SCALE:
        return x
    sign: uint256 = x & SIGN
    places: uint256 = min(unsafe_sub(SCALE, exponent), 25)
    whole: uint256 = significand >> places
    one: uint256 = 1 << places
    rest: uint256 = significand & unsafe_sub(one, 1)
    if direction == TO_NEAREST:
        if unsafe_add(rest << 1, whole & 1) > one:
            whole = unsafe_add(whole, 1)
    elif direction == convert(sign == 0, uint256):
        if rest != 0:
            whole = unsafe_add(whole, 1)
    return self.from_integer(sign, whole)


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
    @param width The width of the signed integer, 32 or 64.
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
