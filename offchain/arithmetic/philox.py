"""Philox4x32-10, the counter-based generator of Salmon et al. (SC 2011), and uniform numbers."""

from typing import TYPE_CHECKING, TypeVar

from moot.offchain.arithmetic.float32 import encode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF

Word = TypeVar("Word", int, "NDArray[np.uint64]")
"""A word, or an array of them: of many counters at once."""

Block = tuple[Word, Word, Word, Word]


def philox(counter: Block[Word], key: tuple[int, int]) -> Block[Word]:
    """Return the four random words (32 bits each) of a counter of four words under a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high_0, low_0 = divmod(MULTIPLIERS[0] * c0, 1 << 32)
        high_1, low_1 = divmod(MULTIPLIERS[1] * c2, 1 << 32)
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0  # type: ignore[assignment]  # numpy: of uint64, as its rules for Python's integers have it
        k0, k1 = (k0 + KEY_STEPS[0]) & _WORD, (k1 + KEY_STEPS[1]) & _WORD
    return c0, c1, c2, c3


def uniform_bits(seed: int, step: int, stream: int, element: int) -> int:
    """Return the binary32 pattern of a uniform number in [0, 1), a multiple of 2^-24.

    Seed and element have 64 bits, step and stream 32. One block of four words serves four elements.
    """
    block = element >> 2
    counter = (block & _WORD, block >> 32, step, stream)
    word = philox(counter, (seed & _WORD, seed >> 32))[element & 3]
    return encode(0, word >> 8, -24)
