"""Blocks of products as tensor cores add them up, in rational numbers: another definition."""

import math
from collections.abc import Sequence
from fractions import Fraction

from moot.offchain.arithmetic.tensor.blocks import Block


def find_value(bits: int, exponent_bits: int, fraction_bits: int) -> Fraction:
    """Return the value of a finite pattern."""
    sign = -1 if bits >> exponent_bits + fraction_bits else 1
    biased = bits >> fraction_bits & (1 << exponent_bits) - 1
    fraction = Fraction(bits & (1 << fraction_bits) - 1, 1 << fraction_bits)
    bias = (1 << exponent_bits - 1) - 1
    return sign * (fraction + (biased > 0)) * Fraction(2) ** (max(biased, 1) - bias)


def find_exponent(bits: int, exponent_bits: int, fraction_bits: int) -> int:
    """Return the exponent of a finite pattern, the least normal one of a subnormal number."""
    biased = bits >> fraction_bits & (1 << exponent_bits) - 1
    return max(biased, 1) - (1 << exponent_bits - 1) + 1


def cut(value: Fraction, unit: Fraction) -> Fraction:
    """Return a value without what is below a unit, in the direction of zero."""
    return math.trunc(value / unit) * unit


def add_rationals(before: int, pairs: Sequence[tuple[int, int]], block: Block) -> Fraction:
    """Return the sum of a block of finite bfloat16 numbers, cut to 24 bits, as a rational."""
    terms = [(find_value(before, 8, 23), find_exponent(before, 8, 23))]
    for a, b in pairs:
        value = find_value(a, 8, 7) * find_value(b, 8, 7)
        terms.append((value, find_exponent(a, 8, 7) + find_exponent(b, 8, 7)))
    largest = max(exponent if value else block.zero_exponent for value, exponent in terms)
    unit = Fraction(2) ** (largest - block.kept_bits)
    total = sum((cut(value, unit) for value, _ in terms), Fraction(0))
    if not total:
        return total
    leading = math.floor(math.log2(abs(total)))
    leading += (abs(total) >= Fraction(2) ** (leading + 1)) - (abs(total) < Fraction(2) ** leading)
    return cut(total, Fraction(2) ** max(leading - 23, -149))
