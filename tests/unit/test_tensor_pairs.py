"""The chain of blocks, pair by pair: what the definition of blocks makes of a dot product."""

from random import Random

import pytest

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor import pairs
from moot.offchain.arithmetic.tensor.blocks import AMPERE, BFLOAT16, BLOCKS, Block, add_chain

ONE = 0x3F80
EVERY = pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
BYTES = (1 << 8 * pairs.WIDTH_BYTES) - 1


def draw_operands(rng: Random, count: int) -> list[tuple[int, int]]:
    """Return pairs of finite bfloat16 patterns, of exponents within 2^5 of 1, few of them 0."""

    def draw() -> int:
        magnitude = rng.randrange(122, 132) << 7 | rng.getrandbits(7)
        return magnitude * (rng.random() > 1 / 8) | rng.getrandbits(1) << 15

    return [(draw(), draw()) for _ in range(count)]


def add_one_by_one(block: Block, initial: int, operands: list[tuple[int, int]]) -> int:
    """Return what a chain of single pairs ends with."""
    accumulator = pairs.begin(initial)
    for operand in operands:
        accumulator = pairs.advance(block, accumulator, operand)
    return pairs.finish(block, accumulator)


@EVERY
def test_pairs_one_by_one_are_a_chain_of_blocks(block: Block) -> None:
    """Any number of them, and the last block need not be full."""
    rng = Random(1)
    for count in range(1, 3 * block.pairs + 2):
        for _ in range(5):
            operands, initial = draw_operands(rng, count), rng.randrange(0x41000000)
            expected = add_chain(block, BFLOAT16, initial, operands)
            assert add_one_by_one(block, initial, operands) == expected


def test_the_blocks_of_another_generation_are_seen() -> None:
    """Blocks of eight in the place of blocks of sixteen change what a chain ends with."""
    rng = Random(2)
    chains = [draw_operands(rng, 32) for _ in range(20)]
    found = [add_one_by_one(AMPERE, 0, operands) for operands in chains]
    assert found != [add_chain(BLOCKS["hopper"], BFLOAT16, 0, each) for each in chains]


@EVERY
def test_bits_are_where_they_are_said_to_be(block: Block) -> None:
    """Pairs wait in ascending order until their block is full, and leave nothing behind."""
    accumulator = pairs.begin(float32.ONE)
    for place in range(block.pairs - 1):
        accumulator = pairs.advance(block, accumulator, (place + 1, ONE))
        assert accumulator & (1 << 32) - 1 == float32.ONE
        assert accumulator >> 32 & (1 << 224) - 1 == place + 1
        assert accumulator >> 256 + 16 * place & (1 << 256 - 16 * place) - 1 == place + 1
        assert accumulator >> 512 + 16 * place == ONE
    assert pairs.advance(block, accumulator, (ONE, ONE)) == 0x40000000


@pytest.mark.parametrize("initial", [0, float32.NEGATIVE_ZERO, 1, float32.NEGATIVE_INFINITY])
@EVERY
def test_a_sum_of_nothing_is_its_initial_element(block: Block, initial: int) -> None:
    """Even -0, which a block of zeros makes +0; a NaN is the canonical one."""
    assert pairs.finish(block, pairs.begin(initial)) == initial
    assert pairs.finish(block, pairs.begin(initial & 1 | 0xFF800002)) == float32.NAN
    assert add_one_by_one(block, float32.NEGATIVE_ZERO, [(0x8000, ONE)]) == float32.ZERO


@EVERY
def test_any_number_is_taken(block: Block) -> None:
    """Junk among 96 bytes and above them: results are such bytes and such a pattern."""
    rng = Random(3)
    for _ in range(200):
        accumulator = rng.getrandbits(768)
        operand = rng.getrandbits(16), rng.getrandbits(16)
        found = pairs.advance(block, accumulator, operand)
        assert found & ~BYTES == 0
        assert found >> 37 & (1 << 219) - 1 == 0
        assert pairs.advance(block, accumulator | 1 << 800, operand) == found
        assert 0 <= pairs.finish(block, accumulator) < 1 << 32
