"""The chain of blocks of a dot product, pair by pair, as one natural number of 96 bytes.

    bits 0 to 31     the binary32 accumulator after the blocks that are full
    bits 32 to 36    how many pairs wait for their block to be full, of L (`Block.pairs`) less 1
    from bit 256 on  the bfloat16 patterns of their first factors, 16 bits each, in ascending order
    from bit 512 on  those of their second factors

All other bits are 0, in what these functions return; but they take any number. Of how many pairs
wait, what is modulo L counts. A block has L pairs, whatever stands where none waits, and a pair
that comes is joined to that bit by bit (or). No other bit means anything, and none is passed on.
(The contract computes a block of fewer pairs as one that zeros fill, and must not fail.)
"""

import struct
from collections.abc import Sequence

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor.blocks import BFLOAT16, Block, add_block

WIDTH_BYTES = 96

_COUNT_AT, _FIRST_AT, _SECOND_AT = 32, 256, 512
_BITS, _PATTERN_BITS = 32, 16


def begin(initial: int) -> int:
    """Return the chain that begins with a number, given its bits; no pair waits."""
    return float32.canonical(initial)


def advance(block: Block, accumulator: int, values: Sequence[int]) -> int:
    """Return a chain with one pair more, given its bits; if that fills a block, with that added."""
    bits, count, first, second = _take_apart(block, accumulator)
    x, y = values
    first |= x << _PATTERN_BITS * count
    second |= y << _PATTERN_BITS * count
    if count + 1 == block.pairs:
        return _add(block, bits, first, second)
    return bits | count + 1 << _COUNT_AT | first << _FIRST_AT | second << _SECOND_AT


def finish(block: Block, accumulator: int) -> int:
    """Return the bits of a chain's number, with the pairs that wait added as a block of fewer."""
    bits, count, first, second = _take_apart(block, accumulator)
    return _add(block, bits, first, second) if count else bits


def describe(block: Block, accumulator: int) -> str:
    """Return a chain's number, and how many pairs wait, for people to read."""
    bits, count, _, _ = _take_apart(block, accumulator)
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return f"{value!r} before a block of {count} products"


def _take_apart(block: Block, accumulator: int) -> tuple[int, int, int, int]:
    """Return the accumulator, the number of pairs that wait, first factors and second ones."""
    places = (1 << _PATTERN_BITS * block.pairs) - 1
    return (
        accumulator & (1 << _BITS) - 1,
        (accumulator >> _COUNT_AT) % block.pairs,
        accumulator >> _FIRST_AT & places,
        accumulator >> _SECOND_AT & places,
    )


def _add(block: Block, bits: int, first: int, second: int) -> int:
    """Return the accumulator after a block of as many pairs as there can be."""
    pairs = [*zip(_split(block, first), _split(block, second), strict=True)]
    return add_block(block, BFLOAT16, bits, pairs)


def _split(block: Block, word: int) -> list[int]:
    """Return the patterns in a word."""
    mask = (1 << _PATTERN_BITS) - 1
    return [word >> _PATTERN_BITS * place & mask for place in range(block.pairs)]
