"""Uniform random numbers by position: Philox4x32-10, many blocks at a time.

`moot.offchain.arithmetic.philox` is the definition.
"""

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.arithmetic.philox import ROUNDS
from moot.offchain.native import buffers
from moot.offchain.native.compiled import kernel, writes
from moot.offchain.native.threads import share

Floats = npt.NDArray[np.float32]

_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEP_0, _KEY_STEP_1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_WORD_BITS = np.uint64(32)
_DISCARDED_BITS = np.uint32(8)
_UNIT = np.float32(2.0**-24)

_BLOCKS = 64
"""Blocks that go through each round together; the loops over them become vector code."""

_GRAIN = 256


def uniform(seed: int, step: int, stream: int, count: int) -> Floats:
    """Return the numbers of elements 0 to `count` - 1, multiples of 2^-24 in [0, 1).

    Args:
        seed: 64 bits, unsigned.
        step: 32 bits, unsigned.
        stream: 32 bits, unsigned.
        count: number of elements.

    Returns:
        (count,) float32.
    """
    groups = -(-count // (4 * _BLOCKS))
    numbers = buffers.empty((groups, _BLOCKS, 4), np.float32)
    key_and_position = np.uint64(seed), np.uint32(step), np.uint32(stream)

    def fill(first: int, stop: int) -> None:
        _fill(*key_and_position, first, numbers[first:stop])

    share(fill, groups, _GRAIN)
    return numbers.reshape(-1)[:count]


@kernel(types.uint64, types.uint32, types.uint32, types.int64, writes(types.float32, 3))
def _fill(seed: np.uint64, step: np.uint32, stream: np.uint32, first: int, numbers: Floats) -> None:
    """Write the numbers of the groups from `first` on, four for each block."""
    words = np.empty((4, _BLOCKS), np.uint32)
    for group in range(len(numbers)):
        for i in range(_BLOCKS):
            block = np.uint64((first + group) * _BLOCKS + i)
            words[0, i], words[1, i] = np.uint32(block), np.uint32(block >> _WORD_BITS)
            words[2, i], words[3, i] = step, stream
        key_0, key_1 = np.uint32(seed), np.uint32(seed >> _WORD_BITS)
        for _ in range(ROUNDS):
            for i in range(_BLOCKS):
                product_0 = np.uint64(words[0, i]) * _MULTIPLIER_0
                product_1 = np.uint64(words[2, i]) * _MULTIPLIER_1
                words[0, i] = np.uint32(product_1 >> _WORD_BITS) ^ words[1, i] ^ key_0
                words[2, i] = np.uint32(product_0 >> _WORD_BITS) ^ words[3, i] ^ key_1
                words[1, i], words[3, i] = np.uint32(product_1), np.uint32(product_0)
            key_0, key_1 = np.uint32(key_0 + _KEY_STEP_0), np.uint32(key_1 + _KEY_STEP_1)
        for i in range(_BLOCKS):
            for j in range(4):
                numbers[group, i, j] = np.float32(words[j, i] >> _DISCARDED_BITS) * _UNIT
