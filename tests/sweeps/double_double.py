"""Arithmetic on pairs of float64 that stand for their sum, high + low, with some 104 bits.

Dekker's and Knuth's algorithms; a pair is normalized: its high part is the sum rounded to float64.
The relative error of each operation is below 2^-100, except that of a sum that cancels: this is
below 2^-100 of the summands.
"""

from typing import TypeAlias

from llvmlite import ir
from numba.core import types

from moot.offchain.native.compiled import emitted, subroutine
from moot.offchain.native.vectors import call

Pair: TypeAlias = tuple[float, float]


@emitted(types.float64, types.float64, types.float64, types.float64)
def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """The product of two numbers, plus a third, rounded once."""
    return call(builder, "llvm.fma", [a, b, c])


@subroutine
def two_sum(a: float, b: float) -> Pair:
    """The sum of two numbers."""
    high = a + b
    other = high - a
    return high, (a - (high - other)) + (b - other)


@subroutine
def normalized(high: float, low: float) -> Pair:
    """The sum of two numbers, the first of which has the greater exponent or is 0."""
    total = high + low
    return total, low - (total - high)


@subroutine
def two_product(a: float, b: float) -> Pair:
    """The product of two numbers."""
    high = a * b
    return high, float(_fma(a, b, -high))


@subroutine
def add(a: Pair, b: Pair) -> Pair:
    """The sum."""
    high, low = two_sum(a[0], b[0])
    return normalized(high, low + (a[1] + b[1]))


@subroutine
def add_float(a: Pair, b: float) -> Pair:
    """The sum."""
    high, low = two_sum(a[0], b)
    return normalized(high, low + a[1])


@subroutine
def negative(a: Pair) -> Pair:
    """The negative."""
    return -a[0], -a[1]


@subroutine
def multiply(a: Pair, b: Pair) -> Pair:
    """The product."""
    high, low = two_product(a[0], b[0])
    return normalized(high, low + (a[0] * b[1] + a[1] * b[0]))


@subroutine
def scale(a: Pair, factor: float) -> Pair:
    """The product with a power of two."""
    return a[0] * factor, a[1] * factor


@subroutine
def divide(a: Pair, b: Pair) -> Pair:
    """The quotient."""
    quotient = a[0] / b[0]
    high, low = two_product(quotient, b[0])
    rest = (((a[0] - high) - low) + a[1]) - quotient * b[1]
    return normalized(quotient, rest / b[0])
