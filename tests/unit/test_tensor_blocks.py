"""What tensor cores compute: the definition, beside MMA-Sim's model and beside rational numbers."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mmasim.arithmetic.fdpa import t_fdpa

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor.blocks import (
    AMPERE,
    BFLOAT16,
    BINARY16,
    BLOCKS,
    HOPPER,
    Block,
    Format,
    add_block,
    add_chain,
)
from tests.rational_blocks import add_rationals, find_value

TYPES = {BFLOAT16: torch.bfloat16, BINARY16: torch.float16}
FORMATS = pytest.mark.parametrize("form", TYPES, ids=["bfloat16", "binary16"])
EVERY = pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
KINDS = ("bits", "ordinary", "wide", "cancelling", "subnormal", "short", "special")
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan)
ONE, INFINITE, QUIET = 0x3F80, 0x7F80, 0x7FC1
"""Patterns of bfloat16: one, infinity and a NaN that is not the canonical one."""

Ints = np.ndarray[Any, np.dtype[np.int64]]


def draw(kind: str, block: Block, form: Format, count: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Return patterns of the factors of blocks, (count, L) each, and of accumulators, (count,)."""
    rng = np.random.default_rng([KINDS.index(kind), block.pairs, form.fraction_bits, seed])
    numbers = rng.standard_normal((2, count, block.pairs)).astype(np.float32)
    before = rng.standard_normal(count).astype(np.float32)
    if kind == "wide":
        numbers *= np.exp2(rng.integers(-40, 40, numbers.shape)).astype(np.float32)
        before *= np.exp2(rng.integers(-60, 60, count)).astype(np.float32)
    elif kind == "cancelling":
        numbers[0, :, 1::2], numbers[1, :, 1::2] = numbers[0, :, ::2], -numbers[1, :, ::2]
        numbers[:, ::5, 0] *= np.float32(2.0**-12)
    elif kind == "subnormal":
        numbers *= np.float32(2.0**-66 if form == BFLOAT16 else 2.0**-14)
        before = rng.integers(0, 1 << 24, count).astype(np.uint32).view(np.float32)
        before[::3] = 0
    elif kind == "short":
        numbers[:, :, 3:] = 0
    elif kind == "special":
        is_special = rng.random(numbers.shape) < 1 / block.pairs
        numbers[is_special] = rng.choice(SPECIAL, int(is_special.sum()))
        before[::3] = rng.choice(SPECIAL, len(before[::3]))
    patterns = torch.from_numpy(numbers).to(TYPES[form]).view(torch.int16).numpy()
    factors = patterns.astype(np.int64) & 0xFFFF
    if kind == "bits":
        factors = rng.integers(0, 1 << 16, factors.shape)
        before = rng.integers(0, 1 << 32, count).astype(np.uint32).view(np.float32)
    return factors[0], factors[1], before.view(np.uint32).astype(np.int64)


def simulate(block: Block, form: Format, a: Ints, b: Ints, before: Ints) -> Ints:
    """Return what MMA-Sim makes of blocks, its NaN as ours."""
    patterns = (torch.from_numpy(x.astype(np.uint16).view(np.int16)) for x in (a, b))
    factors = (x.view(TYPES[form]) for x in patterns)
    start = torch.from_numpy(before.astype(np.uint32).view(np.float32))
    found = t_fdpa(*factors, start, block.kept_bits, "RZ-FP32", block.zero_exponent)
    bits: Ints = found.view(torch.int32).numpy().view(np.uint32).astype(np.int64)
    bits[bits == 0x7FFFFFFF] = float32.NAN
    return bits


def count_wrong(
    kind: str, block: Block, form: Format, count: int, seed: int, own: Block | None = None
) -> int:
    """Return for how many drawn blocks the definition, or another one, is not MMA-Sim's."""
    a, b, before = draw(kind, block, form, count, seed)
    expected = simulate(block, form, a, b, before).tolist()
    rows = zip(a.tolist(), b.tolist(), before.tolist(), expected, strict=True)
    return sum(
        add_block(own or block, form, start, [*zip(x, y, strict=True)]) != right
        for x, y, start, right in rows
    )


@pytest.mark.parametrize("kind", KINDS)
@EVERY
@FORMATS
def test_blocks_are_those_of_the_simulator(kind: str, block: Block, form: Format) -> None:
    """Factors and accumulators of every class."""
    assert count_wrong(kind, block, form, 500, 0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@EVERY
@FORMATS
def test_a_million_blocks_are_those_of_the_simulator(kind: str, block: Block, form: Format) -> None:
    """The same, 28 times 36,000."""
    assert count_wrong(kind, block, form, 36_000, 1) == 0


@pytest.mark.parametrize(
    "change",
    [
        Block(HOPPER.pairs, HOPPER.kept_bits - 1, HOPPER.zero_exponent),
        Block(HOPPER.pairs, HOPPER.kept_bits + 1, HOPPER.zero_exponent),
        Block(HOPPER.pairs, HOPPER.kept_bits, HOPPER.zero_exponent + 8),
    ],
    ids=["a bit less", "a bit more", "zeros are larger"],
)
def test_another_block_is_seen(change: Block) -> None:
    """Each of the numbers that describe a block changes results that are drawn."""
    kinds = ("ordinary", "subnormal")
    assert any(count_wrong(kind, HOPPER, BFLOAT16, 500, 0, change) for kind in kinds)


def test_a_chain_of_another_length_of_block_is_seen() -> None:
    """Two blocks of eight are not one of sixteen."""
    chains = [draw_pairs(np.random.default_rng(seed), 64) for seed in range(10)]
    found = [add_chain(HOPPER, BFLOAT16, 0, pairs) for pairs in chains]
    assert found != [add_chain(AMPERE, BFLOAT16, 0, pairs) for pairs in chains]


def draw_pairs(rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
    """Return pairs of ordinary numbers in bfloat16."""
    numbers = torch.from_numpy(rng.standard_normal((2, count)).astype(np.float32))
    patterns = numbers.to(torch.bfloat16).view(torch.int16).numpy().astype(np.int64) & 0xFFFF
    return [*zip(*patterns.tolist(), strict=True)]


PATTERNS = st.integers(0, 0xFFFF)
BLOCK_OF_PAIRS = st.lists(st.tuples(PATTERNS, PATTERNS), max_size=16)


@given(BLOCK_OF_PAIRS, st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_the_order_within_a_block_means_nothing(
    pairs: list[tuple[int, int]], before: int, random: Any
) -> None:
    """Neither does the order of two factors, nor zeros that fill the block."""
    found = add_block(HOPPER, BFLOAT16, before, pairs)
    turned = [pair[::-1] if random.random() < 0.5 else pair for pair in pairs]
    random.shuffle(turned)
    assert add_block(HOPPER, BFLOAT16, before, turned) == found
    assert add_block(HOPPER, BFLOAT16, before, [*pairs, *[(0, 0)] * (16 - len(pairs))]) == found


FINITE = PATTERNS.filter(lambda bits: bits & INFINITE != INFINITE)
FINITE_32 = st.integers(0, 2**32 - 1).filter(lambda bits: bits & 0x7F800000 != 0x7F800000)


@given(st.lists(st.tuples(FINITE, FINITE), max_size=16), FINITE_32)
def test_a_block_is_a_sum_of_rationals_that_are_cut(
    pairs: list[tuple[int, int]], before: int
) -> None:
    """The definition's integers, beside rational numbers, of any bits."""
    for block in BLOCKS.values():
        found = add_block(block, BFLOAT16, before, pairs[: block.pairs])
        expected = add_rationals(before, pairs[: block.pairs], block)
        if abs(expected) >= Fraction(2) ** 128:
            assert found == float32.with_sign(expected < 0, float32.INFINITY)
        else:
            assert found != float32.NEGATIVE_ZERO
            assert find_value(found, 8, 23) == expected


@pytest.mark.parametrize(
    ("before", "pairs", "expected"),
    [
        (float32.NEGATIVE_ZERO, [], float32.ZERO),
        (0, [(ONE | 0x8000, 0)], float32.ZERO),
        (0, [(INFINITE, ONE)], float32.INFINITY),
        (float32.NEGATIVE_INFINITY, [(ONE, ONE)], float32.NEGATIVE_INFINITY),
        (float32.NEGATIVE_INFINITY, [(INFINITE, ONE)], float32.NAN),
        (0, [(INFINITE, 0)], float32.NAN),
        (0, [(QUIET, ONE)], float32.NAN),
        (0x7F800001, [], float32.NAN),
        (0x7F7FFFFF, [(0x7F7F, ONE)], float32.INFINITY),
    ],
)
def test_zeros_infinities_and_nans(
    before: int, pairs: list[tuple[int, int]], expected: int
) -> None:
    """Results that are no ordinary numbers."""
    for block in BLOCKS.values():
        assert add_block(block, BFLOAT16, before, pairs) == expected
