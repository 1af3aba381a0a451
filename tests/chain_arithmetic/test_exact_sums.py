"""The exact sum in Vyper: what the definition makes of it, however large it is."""

from random import Random

import pytest

from moot.contracts.port import load
from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.exact import sums

SUM_BITS = 704
WORD_BITS = 256
FLAGS = 5
HEAD_BITS = (1, 2, 24, 25, 26, 60)
SPECIALS = (
    *(0, 1, 2, 0x007FFFFF, 0x00800000, float32.ONE, 0x3F800001, 0x7F7FFFFF),
    *(float32.INFINITY, float32.NAN, 0x7F800001, 0x7FFFFFFF),
)
"""Magnitudes of numbers, some of which are no numbers."""


def split(accumulator: int) -> list[int]:
    """Return a sum as the contract's words."""
    return [accumulator >> place & (1 << WORD_BITS) - 1 for place in (0, 256, 512)]


def join(words: list[int]) -> int:
    """Return a sum, given its words."""
    return sum(word << WORD_BITS * place for place, word in enumerate(words))


def draw_sum(rng: Random, bits: int) -> int:
    """Return a sum whose magnitude has so many bits: few at its head, and one far below at most."""
    count = min(bits, rng.choice(HEAD_BITS))
    head = (rng.getrandbits(count) | 1 << count - 1) << bits - count
    tail = 1 << rng.randrange(bits) if rng.random() < 1 / 2 else 0
    return head | tail | rng.getrandbits(FLAGS) << SUM_BITS


@pytest.mark.parametrize("draws", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_sums_of_every_size_are_rounded_as_the_definition_says(draws: int) -> None:
    """Sums of 1 to 704 bits, ties and what is just above them among them, with any flags."""
    finish, rng = load("sums", arithmetic="exact").finish, Random(1)
    for bits in range(1, SUM_BITS + 1):
        for _ in range(draws):
            accumulator = draw_sum(rng, bits)
            found = finish(split(accumulator))
            assert found == sums.finish(accumulator), f"{accumulator:#x}"


def draw_number(rng: Random) -> int:
    """Return the bits of a number, or of none."""
    magnitude = rng.getrandbits(31) if rng.random() < 2 / 3 else rng.choice(SPECIALS)
    return magnitude | rng.getrandbits(1) << 31


@pytest.mark.parametrize("draws", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_terms_are_added_to_sums_of_every_size_as_the_definition_says(draws: int) -> None:
    """Products of any two numbers, and their opposites, are added to sums of 1 to 704 bits."""
    add_product, rng = load("sums", arithmetic="exact").add_product, Random(2)
    for bits in range(1, SUM_BITS + 1):
        accumulator = draw_sum(rng, bits)
        for _ in range(draws):
            x, y = draw_number(rng), draw_number(rng)
            expected = sums.advance(accumulator, (x, y))
            found = join(add_product(split(accumulator), x, y))
            assert found == expected, f"{accumulator:#x} {x:#x} {y:#x}"
            accumulator = expected if rng.random() < 1 / 2 else accumulator
