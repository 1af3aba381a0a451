# pragma version 0.4.3
"""
@title The chain of blocks that tensor cores make of a sum of products
@license Apache-2.0
@notice A sum is 96 bytes, of which the first word is the lowest. Bits 0 to 31 are the binary32
        accumulator after the blocks that are full, and bits 32 to 36 the number of pairs that wait
        for theirs to be, PAIRS - 1 at most. Bits 16 * i to 16 * i + 15 of the second word and of
        the third are the factors of waiting pair i, bfloat16 patterns. All other bits are 0.

        Any 96 bytes are taken for a sum. The number of pairs that wait counts modulo PAIRS; a block
        has PAIRS pairs, whatever stands where none waits, and a pair that comes is joined to that
        bit by bit (or). No other bit means anything, and none is passed on.
        offchain/arithmetic/tensor/pairs.py is the specification.
@dev A block is computed in lanes, all pairs at once: each has 16 bits of a word, or 32 of one of
     two words. What a lane holds is bounded so that none carries into the next, or borrows from it.

     Exponents are natural numbers here, OFFSET more than they are: a product's from 0 to 506, and
     an accumulator's from 126 to 379, or that of zero, which is above 118. One of these is always
     there, so that a product that is zero may have an exponent of 0.

     The unit of terms and of their sum is KEPT_BITS places below the largest exponent. A product of
     significands has 14 places, and is below 2 ** 16: it is UP places further up at most.
"""

import float32
import generation

# What a term is multiplied by that has no other factor: there is none.
ONE: constant(uint256) = 0

# The lowest bit of each lane, and of each of 32 bits.
LANES: constant(uint256) = max_value(uint256) // (2**16 - 1)
ONES: constant(uint256) = max_value(uint256) // (2**32 - 1)
# All bits of a lane, and of one of 32.
LANE: constant(uint256) = 2**16 - 1
WIDE_LANE: constant(uint256) = 2**32 - 1
# Every other lane: of 32 bits, the lower 16.
EVEN: constant(uint256) = ONES * LANE
# Of 32 bits, all but the upper 8, of each; and all but the upper 4.
WITHOUT_8: constant(uint256) = ONES * (2**24 - 1)
WITHOUT_4: constant(uint256) = 2**28 - 1
# Of each lane: a bfloat16 number's fraction, its exponent field at the bottom, its magnitude.
FRACTIONS: constant(uint256) = LANES * (2**7 - 1)
FIELDS: constant(uint256) = LANES * (2**8 - 1)
MAGNITUDES: constant(uint256) = LANES * (2**15 - 1)
# Of each lane: what a field of 255 carries into if 1 is added to it, and the highest bit.
CARRIES: constant(uint256) = LANES << 8
TOPS: constant(uint256) = LANES << 15
# The bits of the words that pairs take up.
PLACES: constant(uint256) = max_value(uint256) >> (256 - 16 * generation.PAIRS)

# What is added to an exponent, so that it is 0 for the product of two subnormal numbers.
OFFSET: constant(uint256) = 252
# The exponent of an accumulator with a field of 0.
LEAST: constant(uint256) = OFFSET - 126
UP: constant(uint256) = generation.KEPT_BITS - 14
# A normal number's field, less 1, is so much below the sum of its leading bit's place and of the
# largest exponent.
FIELD_OFFSET: constant(uint256) = OFFSET - 126 + generation.KEPT_BITS
# Lanes from which at most 31 can be taken before they lose their highest bit.
REACH: constant(uint256) = LANES * (2**15 + 31)


@internal
@pure
def begin(initial: uint256) -> uint256[3]:
    """
    @notice Return the sum of one number: an accumulator, and no pair.
    @param initial The bits of a binary32 number.
    @return The sum.
    """
    return [float32.canonical(initial), 0, 0]


@internal
@pure
def add_product(total: uint256[3], x: uint256, y: uint256) -> uint256[3]:
    """
    @notice Return a sum with one pair more, which adds its block if that is full then.
    @dev A number of pairs is below PAIRS, which is 16 at most.
    @param total The sum.
    @param x The bits of a bfloat16 number.
    @param y The bits of another one.
    @return The sum.
    """
    accumulator: uint256 = total[0] & WIDE_LANE
    count: uint256 = (total[0] >> 32) & (generation.PAIRS - 1)
    first: uint256 = total[1] & PLACES | x << (count << 4)
    second: uint256 = total[2] & PLACES | y << (count << 4)
    if count == generation.PAIRS - 1:
        return [self._add_block(accumulator, first, second), 0, 0]
    return [accumulator | unsafe_add(count, 1) << 32, first, second]


@internal
@pure
def finish(total: uint256[3]) -> uint256:
    """
    @notice Return the bits of the binary32 number that a sum is once what waits has been added.
    @param total The sum.
    @return The bits; the accumulator's if nothing waits.
    """
    accumulator: uint256 = total[0] & WIDE_LANE
    if (total[0] >> 32) & (generation.PAIRS - 1) == 0:
        return accumulator
    return self._add_block(accumulator, total[1] & PLACES, total[2] & PLACES)


@internal
@pure
def _add_block(before: uint256, first: uint256, second: uint256) -> uint256:
    # The accumulator after a block of pairs.
    x_fields: uint256 = (first >> 7) & FIELDS
    y_fields: uint256 = (second >> 7) & FIELDS
    carries: uint256 = unsafe_add(x_fields, LANES) | unsafe_add(y_fields, LANES)
    if carries & CARRIES != 0 or before & float32.INFINITY == float32.INFINITY:
        return self._add_specials(before, first, second)

    # A normal number has a leading bit above its fraction, and an exponent of its field less 1.
    x_normal: uint256 = (unsafe_add(x_fields, FIELDS) >> 8) & LANES
    y_normal: uint256 = (unsafe_add(y_fields, FIELDS) >> 8) & LANES
    x: uint256 = first & FRACTIONS | x_normal << 7
    y: uint256 = second & FRACTIONS | y_normal << 7
    exponents: uint256 = unsafe_sub(
        unsafe_add(x_fields, y_fields), unsafe_add(x_normal, y_normal)
    )
    # Adding 255 to a significand carries into bit 8 unless it is 0.
    nonzero: uint256 = ((unsafe_add(x, FIELDS) & unsafe_add(y, FIELDS)) >> 8) & LANES
    exponents &= unsafe_mul(nonzero, LANE)

    significand: uint256 = before & float32.FRACTION
    exponent: uint256 = (before >> 23) & float32.FIELD
    if exponent != 0:
        significand |= float32.HIDDEN
        exponent = unsafe_add(exponent, LEAST - 1)
    elif significand != 0:
        exponent = LEAST
    else:
        exponent = convert(convert(OFFSET, int256) + generation.ZERO_EXPONENT, uint256)
    largest: uint256 = max(exponent, self._find_largest(exponents))

    # How far each product goes down; of those that go 32 places or more, nothing is left.
    places: uint256 = unsafe_sub(unsafe_mul(largest, LANES), exponents)
    near: uint256 = (unsafe_sub(REACH, places) >> 15) & LANES
    products: uint256 = self._multiply(x, y) & unsafe_mul(near, LANE)
    total: uint256 = self._sum(products, places, (first ^ second) >> 15)
    significand = significand << (generation.KEPT_BITS - 23) >> unsafe_sub(largest, exponent)
    if before < float32.SIGN:
        total = unsafe_add(total, significand)
    else:
        total = unsafe_sub(total, significand)
    return self._encode(total, largest)


@internal
@pure
def _add_specials(before: uint256, first: uint256, second: uint256) -> uint256:
    # The accumulator after a block in which there is a number that is not finite.
    x_special: uint256 = (unsafe_add((first >> 7) & FIELDS, LANES) >> 8) & LANES
    y_special: uint256 = (unsafe_add((second >> 7) & FIELDS, LANES) >> 8) & LANES
    # Lanes with a fraction, and lanes that are not zero.
    x_fraction: uint256 = unsafe_add(first & FRACTIONS, FRACTIONS) >> 7
    y_fraction: uint256 = unsafe_add(second & FRACTIONS, FRACTIONS) >> 7
    x_nonzero: uint256 = unsafe_add(first & MAGNITUDES, MAGNITUDES) >> 15
    y_nonzero: uint256 = unsafe_add(second & MAGNITUDES, MAGNITUDES) >> 15
    if x_special & (x_fraction | ~y_nonzero) | y_special & (y_fraction | ~x_nonzero) != 0:
        return float32.NAN
    # Infinite terms that are negative, and those that are not.
    signs: uint256 = (first ^ second) >> 15
    infinite: uint256 = x_special | y_special
    is_negative: bool = infinite & signs != 0
    is_positive: bool = infinite & ~signs != 0
    magnitude: uint256 = before & float32.MAGNITUDE
    if magnitude > float32.INFINITY:
        return float32.NAN
    if magnitude == float32.INFINITY:
        is_negative = is_negative or before >= float32.SIGN
        is_positive = is_positive or before < float32.SIGN
    if is_negative and is_positive:
        return float32.NAN
    if is_negative:
        return float32.SIGN | float32.INFINITY
    return float32.INFINITY


@internal
@pure
def _find_largest(lanes: uint256) -> uint256:
    # The largest of 16 numbers below 2 ** 15. Half of them take on what those of the other half
    # are more: a lane with its highest bit added, less the other, still has that bit if so, and the
    # difference below it.
    other: uint256 = lanes >> 128
    more: uint256 = unsafe_sub(lanes | TOPS, other)
    most: uint256 = unsafe_add(other, more & unsafe_mul((more >> 15) & LANES, 2**15 - 1))
    other = most >> 64
    more = unsafe_sub(most | TOPS, other)
    most = unsafe_add(other, more & unsafe_mul((more >> 15) & LANES, 2**15 - 1))
    other = most >> 32
    more = unsafe_sub(most | TOPS, other)
    most = unsafe_add(other, more & unsafe_mul((more >> 15) & LANES, 2**15 - 1))
    return max(most & LANE, (most >> 16) & LANE)


@internal
@pure
def _multiply(x: uint256, y: uint256) -> uint256:
    # The products of numbers below 2 ** 8: the one, so many places up, for each bit of the other.
    low: uint256 = unsafe_add(
        unsafe_add(
            unsafe_mul(y & LANES, 255) & x,
            unsafe_mul(y & (LANES << 1), 255) & x << 1,
        ),
        unsafe_add(
            unsafe_mul(y & (LANES << 2), 255) & x << 2,
            unsafe_mul(y & (LANES << 3), 255) & x << 3,
        ),
    )
    high: uint256 = unsafe_add(
        unsafe_add(
            unsafe_mul(y & (LANES << 4), 255) & x << 4,
            unsafe_mul(y & (LANES << 5), 255) & x << 5,
        ),
        unsafe_add(
            unsafe_mul(y & (LANES << 6), 255) & x << 6,
            unsafe_mul(y & (LANES << 7), 255) & x << 7,
        ),
    )
    return unsafe_add(low, high)


@internal
@pure
def _sum(products: uint256, places: uint256, signs: uint256) -> uint256:
    # The sum of products, each so many places down and cut, of which those are negative whose lane
    # has its lowest bit set; modulo 2 ** 256. The highest lane of the product of some lanes with
    # ONES is the sum of them all, which is below 2 ** 32.
    even: uint256 = self._cut(products & EVEN, places)
    odd: uint256 = self._cut((products >> 16) & EVEN, places >> 16)
    negative: uint256 = unsafe_add(
        even & unsafe_mul(signs & ONES, WIDE_LANE),
        odd & unsafe_mul((signs >> 16) & ONES, WIDE_LANE),
    )
    return unsafe_sub(
        unsafe_mul(unsafe_add(even, odd), ONES) >> 224, unsafe_mul(negative, ONES) >> 224 << 1
    )


@internal
@pure
def _cut(lanes: uint256, places: uint256) -> uint256:
    # Numbers below 2 ** 16 in lanes of 32 bits, UP places up, and down as many places as the five
    # lowest bits of the other lanes say. What comes down from the next lane is left out: of
    # 4 bits at most, by the mask that chooses lanes; their numbers are below 2 ** 27.
    found: uint256 = lanes << UP
    found ^= (found ^ (found >> 16) & EVEN) & unsafe_mul((places >> 4) & ONES, WIDE_LANE)
    found ^= (found ^ (found >> 8) & WITHOUT_8) & unsafe_mul((places >> 3) & ONES, WIDE_LANE)
    found ^= (found ^ found >> 4) & unsafe_mul((places >> 2) & ONES, WITHOUT_4)
    found ^= (found ^ found >> 2) & unsafe_mul((places >> 1) & ONES, WITHOUT_4)
    return found ^ (found ^ found >> 1) & unsafe_mul(places & ONES, WITHOUT_4)


@internal
@pure
def _encode(total: uint256, largest: uint256) -> uint256:
    # The bits of a sum, cut, given the largest exponent; it is below 2 ** 32 units, or negative,
    # modulo 2 ** 256.
    sign: uint256 = 0
    size: uint256 = total
    if total >> 255 != 0:
        sign = float32.SIGN
        size = unsafe_sub(0, total)
    if size == 0:
        return 0
    # Its leading bit is at this place, or up to five above it.
    place: uint256 = 0
    if size >= 2**26:
        place = 26
    elif size >= 2**20:
        place = 20
    elif size >= 2**14:
        place = 14
    elif size >= 2**8:
        place = 8
    elif size >= 2**2:
        place = 2
    place = unsafe_add(place, (float32.LEADING_BITS >> unsafe_mul(size >> place, 3)) & 7)
    # The last place of a number below the least normal one is that one's.
    field: uint256 = unsafe_add(place, largest)
    if field < FIELD_OFFSET:
        field = FIELD_OFFSET
    size = size << 23 >> unsafe_sub(field, largest)
    if size == 0:
        return 0
    field = unsafe_sub(field, FIELD_OFFSET)
    if field >= float32.FIELD - 1:
        return sign | float32.INFINITY
    # The leading bit of a normal number adds one to the field.
    return sign | unsafe_add(field << 23, size)
