# pragma version 0.4.3
"""
@title Correctly rounded powers of binary32 numbers
@license Apache-2.0
@notice The result is the binary32 number nearest to the value of the real function, with the
        special values of C's pow.
@dev x ** y = 2 ** (y * log2 x). If an interval that holds the value rounds to one number, that is
     the result. If it does not, the value is either half way between two numbers, which is then
     proved in integers, or nobody knows, and the call reverts rather than guess.

     There are about 2 ** 61 pairs whose power is neither trivial nor out of range; if their bits
     were random, the nearest to a half-way point would come to some 2 ** -86 of its value, and
     the chance that any comes within the interval would be below 2 ** -15. None is known.
"""

import exponential
import float32
import logarithm

POINT: constant(uint256) = exponential.POINT
# The exponent of y for which its significand times the logarithm is in units u = 2 ** -POINT.
ALIGNED: constant(uint256) = float32.SCALE + logarithm.FINER
# From here on a power of two is infinite, or its reciprocal zero.
INFINITE: constant(uint256) = 128 << POINT
VANISHING: constant(uint256) = 151 << POINT
# A product that is not 0 and is doubled so often is beyond both.
MOST_DOUBLINGS: constant(uint256) = 76
MARGIN: constant(uint256) = 1 << 16
# Beyond these j, and n with m > 1, no power is half way: see `_is_half_way`.
MOST_HALVINGS: constant(uint256) = 8
MOST_FACTORS: constant(uint256) = 15

# The outcomes of `_parity`.
FRACTIONAL: constant(uint256) = 0
ODD: constant(uint256) = 1
EVEN: constant(uint256) = 2


@internal
@pure
def pow(x: uint256, y: uint256) -> uint256:
    """
    @notice x ** y; x ** 0 and 1 ** y are 1 even for NaN.
    """
    size: uint256 = x & float32.MAGNITUDE
    y_size: uint256 = y & float32.MAGNITUDE
    if y_size == 0 or x == float32.ONE:
        return float32.ONE
    if size > float32.INFINITY or y_size > float32.INFINITY:
        return float32.NAN
    is_reciprocal: bool = y >= float32.SIGN
    if y_size == float32.INFINITY:
        if size == float32.ONE:
            return float32.ONE
        return 0 if (size < float32.ONE) != is_reciprocal else float32.INFINITY
    parity: uint256 = self._parity(y)
    sign: uint256 = x & float32.SIGN if parity == ODD else 0
    if size == 0 or size == float32.INFINITY:
        return sign if (size == 0) != is_reciprocal else sign | float32.INFINITY
    if x >= float32.SIGN and parity == FRACTIONAL:
        return float32.NAN
    return sign | self._of_numbers(size, y)


@internal
@pure
def _parity(y: uint256) -> uint256:
    """
    @notice Whether a number is `ODD`, `EVEN`, or `FRACTIONAL`.
    @dev The difference is positive, and at most 149.
    """
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(y)
    if exponent > float32.SCALE:
        return EVEN
    places: uint256 = unsafe_sub(float32.SCALE, exponent)
    if significand >> places << places != significand:
        return FRACTIONAL
    return ODD if (significand >> places) & 1 != 0 else EVEN


@internal
@pure
def _of_numbers(x: uint256, y: uint256) -> uint256:
    """
    @notice x ** y for finite x > 0 and finite y other than 0.
    @dev Range: the logarithm is below 2 ** 156 and the significand of y below 2 ** 24; shifted
         by 76 the product is below 2 ** 256. It is 0 only for x = 1, or else 2 ** 147 or more
         for a normal y.

         Error: the logarithm is off by less than 2 ** -116 of itself, and y * log2 x, below 152,
         by less than 2 ** -108.7. The power is off by 0.7 of that and less than 8 u, of itself,
         and it is below 2 ** 125 u: less than 2 ** 15.8 u, the margin.
    """
    is_below: uint256 = 0
    logarithm_of_x: uint256 = 0
    is_below, logarithm_of_x = logarithm.of_number(x, True)
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(y)
    product: uint256 = unsafe_mul(significand, logarithm_of_x)
    if exponent < ALIGNED:
        product >>= unsafe_sub(ALIGNED, exponent)
    else:
        product <<= min(unsafe_sub(exponent, ALIGNED), MOST_DOUBLINGS)
    is_negative: bool = is_below != y & float32.SIGN
    if is_negative and product >= VANISHING:
        return 0
    if not is_negative and product >= INFINITE:
        return float32.INFINITY
    significand, exponent = exponential.power_of_two(product, is_negative)
    low: uint256 = float32.encode(0, unsafe_sub(significand, MARGIN), exponent)
    high: uint256 = float32.encode(0, unsafe_add(significand, MARGIN), exponent)
    if low == high:
        return low
    assert self._is_half_way(x, y, low), "power: undecided"
    # The even neighbour.
    return unsafe_add(low, low & 1)


@internal
@pure
def _is_half_way(x: uint256, y: uint256, low: uint256) -> bool:
    """
    @notice Whether x ** y, for positive x, is half way between `low` and the number above it.
    @dev Let x = m * 2 ** e and |y| = n / 2 ** j with m odd, and n odd or j = 0; and the half-way
         point be c * 2 ** q with c odd, c < 2 ** 25. It is x ** y if and only if, with y > 0 or
         else m = c = 1, n * e = 2 ** j * q (or -n * e) and m ** n = c ** (2 ** j).

         Bounds: if e != 0, then 2 ** j divides e and n is at most |q|, where e and q are at most
         150 in magnitude, so that j < 8 and n < 2 ** 8. If m > 1, it has an integer root of order
         2 ** j, which is 3 or more, hence j <= 3, and the n-th power of that root is c, hence
         n <= 15. m = 1 and e = 0 is excluded. Exponents are compared modulo 2 ** 256 and stay
         below 2 ** 40; no product of roots passes 2 ** 49.
    @param x A finite pattern above 0, but not 1.
    """
    m: uint256 = 0
    e: uint256 = 0
    n: uint256 = 0
    point: uint256 = 0
    c: uint256 = 0
    q: uint256 = 0
    m, e = self._odd_part(x)
    n, point = self._odd_part(y & float32.MAGNITUDE)
    c, q = float32.decode(low)
    c = c << 1 | 1
    if point > float32.SCALE + MOST_HALVINGS or point < float32.SCALE - MOST_HALVINGS:
        return False
    roots: uint256 = 0
    if point < float32.SCALE:
        roots = unsafe_sub(float32.SCALE, point)
    else:
        n <<= unsafe_sub(point, float32.SCALE)
    times: uint256 = n
    if y >= float32.SIGN:
        times = unsafe_sub(0, n)
    exponent: uint256 = unsafe_mul(times, unsafe_sub(e, float32.SCALE))
    if exponent != unsafe_sub(q, float32.SCALE + 1) << roots:
        return False
    if m == 1:
        return c == 1
    if y >= float32.SIGN or n > MOST_FACTORS:
        return False
    for i: uint256 in range(MOST_HALVINGS):
        if i == roots:
            break
        root: uint256 = isqrt(m)
        if unsafe_mul(root, root) != m:
            return False
        m = root
    product: uint256 = 1
    for i: uint256 in range(MOST_FACTORS):
        if i == n:
            break
        product = unsafe_mul(product, m)
        if product > c:
            return False
    return product == c


@internal
@pure
def _odd_part(x: uint256) -> (uint256, uint256):
    """
    @notice Splits a finite pattern above 0 into odd * 2 ** (exponent - SCALE).
    """
    odd: uint256 = 0
    exponent: uint256 = 0
    odd, exponent = float32.decode(x)
    for i: uint256 in range(5):
        places: uint256 = 16 >> i
        if odd >> places << places == odd:
            odd >>= places
            exponent = unsafe_add(exponent, places)
    return odd, exponent
