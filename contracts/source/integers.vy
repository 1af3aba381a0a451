# pragma version 0.4.3
"""
@title Two's-complement integers that wrap around, on bit patterns
@license Apache-2.0
@notice A pattern is a number below 2 ** width, where the width is 8, 32 or 64.
@dev Unchecked operations are meant to wrap: what they leave modulo 2 ** 256 is right modulo
     2 ** width, and that is all that is kept.
"""

# The outcomes of `compare`.
LESS: constant(uint256) = 0
EQUAL: constant(uint256) = 1
GREATER: constant(uint256) = 2


@internal
@pure
def wrap(width: uint256, x: uint256) -> uint256:
    """
    @notice The last `width` bits of a word.
    """
    modulus: uint256 = 1 << width
    return x & unsafe_sub(modulus, 1)


@internal
@pure
def is_negative(width: uint256, x: uint256) -> bool:
    """
    @notice Whether the integer is below zero.
    """
    return x >> unsafe_sub(width, 1) != 0


@internal
@pure
def add(width: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice x + y.
    """
    return self.wrap(width, unsafe_add(x, y))


@internal
@pure
def subtract(width: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice x - y.
    """
    return self.wrap(width, unsafe_sub(x, y))


@internal
@pure
def multiply(width: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice x * y.
    """
    return self.wrap(width, unsafe_mul(x, y))


@internal
@pure
def negate(width: uint256, x: uint256) -> uint256:
    """
    @notice -x; the least integer is its own negative.
    """
    return self.wrap(width, unsafe_sub(0, x))


@internal
@pure
def absolute(width: uint256, x: uint256) -> uint256:
    """
    @notice |x|; of the least integer it is the pattern of the least integer, its true magnitude.
    """
    if self.is_negative(width, x):
        return self.negate(width, x)
    return x


@internal
@pure
def complement(width: uint256, x: uint256) -> uint256:
    """
    @notice x with every bit flipped.
    """
    return self.wrap(width, ~x)


@internal
@pure
def extend(width: uint256, x: uint256) -> uint256:
    """
    @notice The same integer as a word of 256 bits.
    """
    top: uint256 = 1 << unsafe_sub(width, 1)
    return unsafe_sub(x ^ top, top)


@internal
@pure
def compare(width: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice The order of two integers: `LESS`, `EQUAL` or `GREATER`.
    """
    if x == y:
        return EQUAL
    top: uint256 = 1 << unsafe_sub(width, 1)
    if x ^ top < y ^ top:
        return LESS
    return GREATER


@internal
@pure
def floor_divide(width: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice x / y rounded toward minus infinity; by zero it is 0.
    @dev With unlike signs it is -ceil(|x| / |y|); |x| + |y| - 1 is below 2 ** 65.
    """
    if y == 0:
        return 0
    dividend: uint256 = self.absolute(width, x)
    divisor: uint256 = self.absolute(width, y)
    if self.is_negative(width, x ^ y):
        dividend = unsafe_sub(unsafe_add(dividend, divisor), 1)
        return self.negate(width, unsafe_div(dividend, divisor))
    return unsafe_div(dividend, divisor)


@internal
@pure
def remainder(width: uint256, x: uint256, y: uint256) -> uint256:
    """
    @notice x - y * floor(x / y), which has the sign of y; by zero it is 0.
    """
    if y == 0:
        return 0
    return self.wrap(width, unsafe_sub(x, unsafe_mul(y, self.floor_divide(width, x, y))))
