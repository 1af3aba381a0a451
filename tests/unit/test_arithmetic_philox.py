"""Philox4x32-10 against the known answers of its authors, and what the uniforms promise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.philox import Block, philox, uniform_bits

KNOWN_ANSWERS = [
    (
        (0x00000000, 0x00000000, 0x00000000, 0x00000000),
        (0x00000000, 0x00000000),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""`kat_vectors` of Random123, the authors' own implementation."""


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter: Block, key: tuple[int, int], expected: Block) -> None:
    """The published words for counters and keys of zeros, of ones, and of digits of pi."""
    assert philox(counter, key) == expected


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
)
def test_uniforms_are_words_by_position(seed: int, step: int, stream: int, element: int) -> None:
    """The number is exactly the upper 24 bits of the word that the position names."""
    counter = (element // 4 % 2**32, element // 4 // 2**32, step, stream)
    word = philox(counter, (seed % 2**32, seed // 2**32))[element % 4]
    bits = uniform_bits(seed, step, stream, element)
    significand, exponent = float32.decode(bits)
    assert significand * 2.0**exponent == (word >> 8) / 2**24 < 1


def test_every_part_of_the_position_counts() -> None:
    """Changing any one of seed, step, stream and element, low or high bits, changes the number."""
    positions = [(0, 0, 0, 0)]
    positions += [(1, 0, 0, 0), (1 << 32, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0)]
    positions += [(0, 0, 0, 1), (0, 0, 0, 4), (0, 0, 0, 1 << 34), (0, 0, 0, 1 << 63)]
    assert len({uniform_bits(*position) for position in positions}) == len(positions)
