"""Rules of divisions that leave a remainder, exact as C's `fmod` is, and of shifts.

A remainder of floats is exact however large the quotient is. Each stage takes the quotient q as a
float32 number, of 24 bits, off the dividend: fma(-q, divisor, rest) is exact, and leaves a quotient
that is 24 bits shorter. The number of stages follows from the exponents that the divisor may have.
"""

from collections.abc import Iterator, Mapping
from math import frexp, isfinite

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, Rule
from moot.offchain.frontend.lowering.views import View

Argument = View | float

BITS = 24
"""Bits of a float32 number's significand: what one stage takes off a quotient."""

TOP = 128
"""All float32 numbers are below 2 to this power."""

LEAST = -149
"""The exponent of the least float32 number."""

LIFT, LIFTED = 75, 52
"""A divisor below 2^52 is lifted by 2^75, twice at most, lest the first quotients overflow."""


def divide(b: Builder, x: Argument, y: Argument, *, rounding_mode: str | None = None) -> View:
    """Lower div: IEEE division, truncated or rounded down; integers divide to integers."""
    dtype = b.result.dtype
    left, right = b.cast(x, dtype), b.cast(y, dtype)
    if dtype is not DType.FLOAT32:
        quotient = b.map(Function.FLOOR_DIVIDE, left, right)
        return quotient if rounding_mode == "floor" else _toward_zero(b, left, right, quotient)
    if rounding_mode == "floor":
        return _floor(b, left, right, _exponent(y))
    quotient = b.map(Function.DIV, left, right)
    return quotient if rounding_mode is None else b.map(Function.TRUNC, quotient)


def _toward_zero(b: Builder, x: View, y: View, floor: View) -> View:
    """Return x / y toward zero: the floor plus one where that is negative and not exact."""
    difference = b.map(Function.SUB, x, b.map(Function.MUL, floor, y))
    zero = b.scalar(0, x.dtype)
    is_inexact = _compare(b, Function.NE, difference, zero)
    is_negative = _compare(b, Function.LT, floor, zero)
    correction = b.cast(b.map(Function.AND, is_inexact, is_negative), x.dtype)
    return b.map(Function.ADD, floor, correction, part="quotient")


def _floor(b: Builder, x: View, y: View, exponent: int) -> View:
    """Return the floor of the exact quotient, as torch has it: (x - remainder) / y, rounded.

    A quotient of 0 has the sign of x / y; a division by 0 is x / y.
    """
    zero, one = b.scalar(0, x.dtype), b.scalar(1, x.dtype)
    quotient = b.map(Function.DIV, x, y)
    rest = _fmod(b, x, y, exponent)
    whole = b.map(Function.DIV, b.map(Function.SUB, x, rest), y, part="whole")
    is_below = _is_across(b, rest, y)
    whole = b.map(Function.WHERE, is_below, b.map(Function.SUB, whole, one), whole)
    floor = b.map(Function.FLOOR, whole)
    half = b.scalar(0.5, x.dtype)
    is_next = _compare(b, Function.GT, b.map(Function.SUB, whole, floor), half)
    floor = b.map(Function.WHERE, is_next, b.map(Function.ADD, floor, one), floor)
    is_nothing = _compare(b, Function.EQ, whole, zero)
    floor = b.map(Function.WHERE, is_nothing, b.map(Function.MUL, quotient, zero), floor)
    is_zero = _compare(b, Function.EQ, y, zero)
    return b.map(Function.WHERE, is_zero, quotient, floor, part="floor_quotient")


def fmod(b: Builder, x: Argument, y: Argument) -> View:
    """Lower fmod: the remainder of a division toward zero, which has the dividend's sign."""
    dtype = b.result.dtype
    left, right = b.cast(x, dtype), b.cast(y, dtype)
    if dtype is DType.FLOAT32:
        return _fmod(b, left, right, _exponent(y))
    rest = b.map(Function.REMAINDER, left, right)
    is_across = _is_across(b, rest, left)
    return b.map(Function.WHERE, is_across, b.map(Function.SUB, rest, right), rest)


def remainder(b: Builder, x: Argument, y: Argument) -> View:
    """Lower remainder: that of a division rounded down, which has the divisor's sign."""
    dtype = b.result.dtype
    left, right = b.cast(x, dtype), b.cast(y, dtype)
    if dtype is not DType.FLOAT32:
        return b.map(Function.REMAINDER, left, right)
    rest = _fmod(b, left, right, _exponent(y))
    is_across = _is_across(b, rest, right)
    return b.map(Function.WHERE, is_across, b.map(Function.ADD, rest, right), rest)


def _exponent(divisor: Argument) -> int:
    """Return an exponent e such that the divisor is at least 2^e, or zero."""
    if isinstance(divisor, View) or not divisor or not isfinite(divisor):
        return LEAST
    return max(frexp(divisor)[1] - 1, LEAST)


def _compare(b: Builder, function: Function, x: View, y: View) -> View:
    return b.map(function, x, y, dtype=DType.BOOL)


def _is_across(b: Builder, x: View, y: View) -> View:
    """Return whether x is not 0 and of another sign than y."""
    zero = b.scalar(0, x.dtype)
    x_below, y_below = (_compare(b, Function.LT, v, zero) for v in (x, y))
    return b.map(
        Function.AND,
        _compare(b, Function.NE, x, zero),
        _compare(b, Function.NE, x_below, y_below),
        part="is_across",
    )


def _fmod(b: Builder, x: View, y: View, exponent: int) -> View:
    """Return the exact remainder toward zero of float32 numbers, |y| at least 2^exponent."""
    size, rest = b.map(Function.ABS, y), b.map(Function.ABS, x)
    dividend, zero = rest, b.scalar(0, x.dtype)
    for divisor, stages in _divisors(b, size, exponent):
        for _ in range(stages):
            quotient = b.map(Function.TRUNC, b.map(Function.DIV, rest, divisor))
            negative = b.map(Function.NEG, quotient)
            rest = b.map(Function.FMA, negative, divisor, rest, part="rest")
    above = b.map(Function.ADD, rest, size)
    rest = b.map(Function.WHERE, _compare(b, Function.LT, rest, zero), above, rest)
    is_smaller = _compare(b, Function.LT, dividend, size)
    rest = b.map(Function.WHERE, is_smaller, dividend, rest)
    signed = b.map(Function.WHERE, _compare(b, Function.EQ, rest, x), x, rest)
    is_negative = _compare(b, Function.LT, x, zero)
    return b.map(Function.WHERE, is_negative, b.map(Function.NEG, rest), signed, part="fmod")


def _divisors(b: Builder, size: View, exponent: int) -> Iterator[tuple[View, int]]:
    """Yield what to divide by in turn, the divisor last, and how many stages each takes."""
    lifted, exponents = [size], [exponent]
    while TOP - exponents[-1] >= TOP:
        bound = b.scalar(2.0**LIFTED, size.dtype)
        is_low = _compare(b, Function.LT, lifted[-1], bound)
        raised = b.map(Function.MUL, lifted[-1], b.scalar(2.0**LIFT, size.dtype))
        lifted.append(b.map(Function.WHERE, is_low, raised, lifted[-1], part="lifted"))
        exponents.append(min(exponents[-1] + LIFT, LIFTED))
    quotient_bits = TOP - exponents[-1]
    while lifted:
        yield lifted.pop(), -(-quotient_bits // BITS)
        quotient_bits = LIFT


def shift(b: Builder, x: Argument, y: Argument, *, is_left: bool) -> View:
    """Lower shifts of integers, by 2^0, 2^1, 2^2, ... places as the count's bits say.

    A count that is negative or not below the width shifts everything out, as torch has it.
    """
    dtype = b.result.dtype
    value, count = b.cast(x, dtype), b.cast(y, dtype)
    width = 8 * dtype.width
    zero, last = b.scalar(0, dtype), b.scalar(width - 1, dtype)
    is_outside = b.map(
        Function.OR, _compare(b, Function.LT, count, zero), _compare(b, Function.GT, count, last)
    )
    shifted = value
    places = 1
    while places < width:
        bit = b.map(Function.AND, count, b.scalar(places, dtype))
        factor = b.scalar(1 << places, dtype)
        moved = b.map(Function.MUL if is_left else Function.FLOOR_DIVIDE, shifted, factor)
        shifted = b.map(Function.WHERE, _compare(b, Function.NE, bit, zero), moved, shifted)
        places *= 2
    sign = b.map(Function.WHERE, _compare(b, Function.LT, value, zero), b.scalar(-1, dtype), zero)
    return b.map(Function.WHERE, is_outside, zero if is_left else sign, shifted, part="shifted")


def _shifts() -> Iterator[tuple[str, Rule]]:
    for name, other, is_left in (("left", "lshift", True), ("right", "rshift", False)):

        def rule(b: Builder, x: Argument, y: Argument, *, is_left: bool = is_left) -> View:
            return shift(b, x, y, is_left=is_left)

        for overload in ("Tensor", "Tensor_Scalar", "Scalar_Tensor"):
            yield f"aten.bitwise_{name}_shift.{overload}", rule
        for overload in ("Tensor", "Scalar"):
            yield f"aten.__{other}__.{overload}", rule


_OVERLOADS = ("Tensor", "Scalar")

DIVISION: Mapping[str, Rule] = {
    **{f"aten.div.{o}": divide for o in (*_OVERLOADS, "Tensor_mode", "Scalar_mode")},
    **{f"aten.fmod.{o}": fmod for o in _OVERLOADS},
    **{f"aten.remainder.{o}": remainder for o in (*_OVERLOADS, "Scalar_Tensor")},
    **dict(_shifts()),
}
"""ATen overload -> rule."""
