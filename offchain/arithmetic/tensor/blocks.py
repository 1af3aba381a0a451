"""Blocks of products as tensor cores add them to an accumulator, on bit patterns, in integers.

A matrix instruction adds a block of products of short floats to a binary32 number. Each product is
exact. All terms, the accumulator among them, are cut at one place, that many bits below the largest
exponent, and added up as integers; the sum is cut to binary32. The next block of a dot product adds
to that result: a chain in ascending order of the terms.

Sources: MMA-Sim (arXiv 2511.10909) and Accurate Models of NVIDIA Tensor Cores (arXiv 2512.07004),
which found such models equal to the hardware, bit for bit. Their NaN is 0x7fffffff; ours, as
everywhere, is 0x7fc00000.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from moot.offchain.arithmetic import float32


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format of floats with infinities, NaNs and subnormal numbers.

    Attributes:
        exponent_bits: of a pattern, above the fraction.
        fraction_bits: of a pattern, its lowest ones.
    """

    exponent_bits: int
    fraction_bits: int


BFLOAT16, BINARY16, BINARY32 = Format(8, 7), Format(5, 10), Format(8, 23)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of one generation of tensor cores.

    Attributes:
        pairs: how many products are added at once.
        kept_bits: how many bits below the largest exponent a term is cut.
        zero_exponent: the exponent with which a term that is zero takes part.
    """

    pairs: int
    kept_bits: int
    zero_exponent: int


HOPPER = Block(pairs=16, kept_bits=25, zero_exponent=-133)
"""Hopper's, of `mma.sync` and `wgmma`, and Blackwell's."""

AMPERE = Block(pairs=8, kept_bits=24, zero_exponent=-132)
"""Turing's, Ampere's and Ada's."""

BLOCKS = {"hopper": HOPPER, "ampere": AMPERE}


class _Number(NamedTuple):
    """A float apart: (-1)^sign * significand * 2^(exponent - fraction bits), if it is finite."""

    sign: int
    significand: int
    exponent: int
    is_infinite: bool
    is_nan: bool


def add_block(
    block: Block, form: Format, accumulator: int, operands: Sequence[tuple[int, int]]
) -> int:
    """Return the accumulator after a block of products.

    Args:
        block: how it is added up.
        form: the format of the operands.
        accumulator: the pattern of a binary32 number.
        operands: pairs of patterns, one for each product. Where they are fewer than a block has,
            the others are zeros, which change nothing.

    Returns:
        The pattern of a binary32 number: never -0, and of NaNs the canonical one.
    """
    before = _take_apart(BINARY32, accumulator)
    pairs = [tuple(_take_apart(form, bits) for bits in pair) for pair in operands]
    numbers = [before, *(number for pair in pairs for number in pair)]
    if any(number.is_nan for number in numbers):
        return float32.NAN
    if any(number.is_infinite for number in numbers):
        return _add_infinities(before, pairs)
    terms = [(*_sign(before), before.exponent - BINARY32.fraction_bits, before.exponent)]
    for a, b in pairs:
        exponent = a.exponent + b.exponent
        unit = exponent - 2 * form.fraction_bits
        terms.append((a.sign ^ b.sign, a.significand * b.significand, unit, exponent))
    largest = max(exponent if size else block.zero_exponent for _, size, _, exponent in terms)
    last = largest - block.kept_bits
    total = sum((-1) ** sign * _shift(size, unit - last) for sign, size, unit, _ in terms)
    return _cut(total, last)


def add_chain(
    block: Block, form: Format, accumulator: int, operands: Sequence[tuple[int, int]]
) -> int:
    """Return the accumulator after all products of a dot product, block by block."""
    for start in range(0, len(operands), block.pairs):
        accumulator = add_block(block, form, accumulator, operands[start : start + block.pairs])
    return accumulator


def _take_apart(form: Format, bits: int) -> _Number:
    """Split a pattern; a subnormal number has the least normal exponent."""
    fraction = bits & (1 << form.fraction_bits) - 1
    biased = bits >> form.fraction_bits & (1 << form.exponent_bits) - 1
    sign = bits >> form.fraction_bits + form.exponent_bits
    bias = (1 << form.exponent_bits - 1) - 1
    is_last = biased == (1 << form.exponent_bits) - 1
    significand = fraction | (biased > 0) << form.fraction_bits
    exponent = max(biased, 1) - bias
    return _Number(
        sign, significand, exponent, is_last and fraction == 0, is_last and fraction != 0
    )


def _sign(number: _Number) -> tuple[int, int]:
    return number.sign, number.significand


def _add_infinities(before: _Number, pairs: Iterable[Sequence[_Number]]) -> int:
    """Return the sum of terms of which one or more are infinite, and none is NaN."""
    signs = {before.sign} if before.is_infinite else set()
    for a, b in pairs:
        if a.is_infinite or b.is_infinite:
            if a.significand == 0 or b.significand == 0:
                return float32.NAN
            signs.add(a.sign ^ b.sign)
    if len(signs) > 1:
        return float32.NAN
    return float32.with_sign(signs.pop(), float32.INFINITY)


def _shift(size: int, places: int) -> int:
    """Return a size shifted up so many places, or down and cut."""
    return size << places if places >= 0 else size >> -places


def _cut(total: int, unit: int) -> int:
    """Return the binary32 number next to total * 2^unit in the direction of zero."""
    if total == 0:
        return float32.ZERO
    size = abs(total)
    exponent = size.bit_length() - 1 + unit
    if exponent > 127:
        return float32.with_sign(total < 0, float32.INFINITY)
    last = max(exponent - BINARY32.fraction_bits, float32.LEAST_EXPONENT)
    bits = _shift(size, unit - last)
    if not bits:
        return float32.ZERO
    # A normal number's leading bit adds one to its biased exponent; a subnormal one has none.
    bits += (last - float32.LEAST_EXPONENT) << BINARY32.fraction_bits
    return float32.with_sign(total < 0, bits)
