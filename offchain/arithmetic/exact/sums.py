"""The exact sum of binary32 numbers and of their products, as one natural number of 96 bytes.

    bits 0 to 703    the magnitude of the sum of the finite terms, in units of 2^-298
    bit 704          whether that sum is negative
    bits 705 to 708  whether a term was NaN, +infinity, -infinity, anything but -0

Two such numbers add up: the signed sums as integers, the others bit by bit (or). Neither order nor
grouping makes a difference, and 2^148 terms fit. A term is a number, or the exact product of two,
which is NaN where a factor is, or where infinity meets zero.

The number is rounded once, to nearest even: to NaN if a term was NaN or if infinities of both signs
were among them, to infinity if one of them was, or where binary32 overflows; a sum of nothing but
-0 is -0, any other sum of zero is +0. (A magnitude, not two's complement: most of its bytes are
zeros then, which cost least to post on a chain.)
"""

from collections.abc import Sequence

from moot.offchain.arithmetic import float32

WIDTH_BYTES = 96

_SUM_BITS = 704
_MAGNITUDE = (1 << _SUM_BITS) - 1
_UNIT_EXPONENT = 2 * float32.LEAST_EXPONENT

_IS_NEGATIVE, _HAS_NAN, _HAS_INFINITY, _HAS_NEGATIVE_INFINITY, _HAS_OTHER = (
    1 << (_SUM_BITS + place) for place in range(5)
)
_FLAGS = _HAS_NAN | _HAS_INFINITY | _HAS_NEGATIVE_INFINITY | _HAS_OTHER


def begin(initial: int) -> int:
    """Return the sum of one number, given its bits."""
    return _make_term(initial, float32.ONE)


def advance(accumulator: int, values: Sequence[int]) -> int:
    """Return a sum with one term more: a number, or the product of two, given their bits."""
    first, second = values if len(values) > 1 else (*values, float32.ONE)
    return add(accumulator, _make_term(first, second))


def add(first: int, second: int) -> int:
    """Return the sum of two sums."""
    return (first | second) & _FLAGS | _encode(_decode(first) + _decode(second))


def finish(accumulator: int) -> int:
    """Return the bits of the binary32 number that is nearest to a sum."""
    infinities = accumulator & (_HAS_INFINITY | _HAS_NEGATIVE_INFINITY)
    if accumulator & _HAS_NAN or infinities == _HAS_INFINITY | _HAS_NEGATIVE_INFINITY:
        return float32.NAN
    if infinities:
        is_positive = infinities == _HAS_INFINITY
        return float32.INFINITY if is_positive else float32.NEGATIVE_INFINITY
    if not accumulator & _HAS_OTHER:
        return float32.NEGATIVE_ZERO
    sign = int(accumulator & _IS_NEGATIVE != 0)
    return float32.encode(sign, accumulator & _MAGNITUDE, _UNIT_EXPONENT)


def get_finite(accumulator: int) -> int | None:
    """Return a sum in units of 2^-298; None if a term was NaN or infinite."""
    is_finite = not accumulator & (_HAS_NAN | _HAS_INFINITY | _HAS_NEGATIVE_INFINITY)
    return _decode(accumulator) if is_finite else None


def compose(total: int, flags: Sequence[bool]) -> int:
    """Return the sum of terms of which as much is known.

    Args:
        total: the sum of the finite ones, in units of 2^-298.
        flags: whether a term was NaN, +infinity, -infinity, anything but -0.
    """
    bits = (_HAS_NAN, _HAS_INFINITY, _HAS_NEGATIVE_INFINITY, _HAS_OTHER)
    return sum(bit for bit, flag in zip(bits, flags, strict=True) if flag) | _encode(total)


def describe(accumulator: int) -> str:
    """Return the sum of the finite terms as the nearest binary64 number, for people to read."""
    return f"{_decode(accumulator) / (1 << -_UNIT_EXPONENT)!r}, exactly kept"


def _make_term(x: int, y: int) -> int:
    """Return the sum of one product."""
    if float32.is_nan(x) or float32.is_nan(y):
        return _HAS_NAN | _HAS_OTHER
    is_negative = float32.sign(x) != float32.sign(y)
    if float32.is_infinite(x) or float32.is_infinite(y):
        if float32.is_zero(x) or float32.is_zero(y):
            return _HAS_NAN | _HAS_OTHER
        return _HAS_OTHER | (_HAS_NEGATIVE_INFINITY if is_negative else _HAS_INFINITY)
    (significand, exponent), (factor, other) = float32.decode(x), float32.decode(y)
    product = significand * factor << (exponent + other - _UNIT_EXPONENT)
    if not product and is_negative:
        return 0
    return _HAS_OTHER | _encode(product)


def _encode(total: int) -> int:
    """Return a sum of finite terms as its magnitude and its sign."""
    return abs(total) | (_IS_NEGATIVE if total < 0 else 0)


def _decode(accumulator: int) -> int:
    """Return the sum of the finite terms."""
    magnitude = accumulator & _MAGNITUDE
    return -magnitude if accumulator & _IS_NEGATIVE else magnitude
