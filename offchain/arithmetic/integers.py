"""Two's-complement integers of 32 or 64 bits that wrap around, on bit patterns."""


def wrap(width: int, value: int) -> int:
    """Return the pattern, in [0, 2^width), of an integer reduced modulo 2^width."""
    return value & ((1 << width) - 1)


def signed(width: int, x: int) -> int:
    """Return the integer in [-2^(width-1), 2^(width-1)) that a pattern stands for."""
    return x - (1 << width) if x >> width - 1 else x


def add(width: int, x: int, y: int) -> int:
    """Return x + y."""
    return wrap(width, x + y)


def subtract(width: int, x: int, y: int) -> int:
    """Return x - y."""
    return wrap(width, x - y)


def multiply(width: int, x: int, y: int) -> int:
    """Return x * y."""
    return wrap(width, x * y)


def negate(width: int, x: int) -> int:
    """Return -x; the least integer is its own negative."""
    return wrap(width, -x)


def absolute(width: int, x: int) -> int:
    """Return |x|; of the least integer it is the least integer."""
    return wrap(width, abs(signed(width, x)))


def maximum(width: int, x: int, y: int) -> int:
    """Return the larger operand."""
    return y if less(width, x, y) else x


def minimum(width: int, x: int, y: int) -> int:
    """Return the smaller operand."""
    return x if less(width, x, y) else y


def less(width: int, x: int, y: int) -> bool:
    """Whether x < y as signed integers."""
    return signed(width, x) < signed(width, y)


def less_equal(width: int, x: int, y: int) -> bool:
    """Whether x <= y as signed integers."""
    return not less(width, y, x)


def complement(width: int, x: int) -> int:
    """Return x with every bit flipped."""
    return wrap(width, ~x)


def floor_divide(width: int, x: int, y: int) -> int:
    """Return x / y rounded toward minus infinity; by zero it is 0."""
    return wrap(width, signed(width, x) // signed(width, y)) if y else 0


def remainder(width: int, x: int, y: int) -> int:
    """Return x - y * floor(x / y), which has the sign of y; by zero it is 0."""
    return wrap(width, signed(width, x) % signed(width, y)) if y else 0
