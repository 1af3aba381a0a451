"""pow in Vyper, against MPFR; and the rule for powers that are half way."""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moot.contracts.port import load
from moot.offchain.arithmetic import elementary, float32
from moot.offchain.arithmetic.functions import Function
from moot.offchain.errors import Reverted
from tests.chain_arithmetic.bytecode import Bytecode, deployed
from tests.chain_arithmetic.rounding import (
    SPECIALS,
    assert_correctly_rounded,
    expose,
    load_changed,
)
from tests.sweeps.oracle import round_exactly

ONE = float32.ONE
PATTERNS = st.integers(0, (1 << 32) - 1)


@pytest.fixture(scope="module")
def contract() -> Iterator[Bytecode]:
    """The function on a chain."""
    with deployed("exposed", expose("power", ["pow"], ["x", "y"])) as exposed:
        yield exposed


def encode(value: Fraction | int) -> int:
    """Return the pattern of a number whose denominator is a power of two."""
    value = Fraction(value)
    places = value.denominator.bit_length() - 1
    assert value.denominator == 1 << places
    return float32.encode(int(value < 0), abs(value.numerator), -places)


def find_long_powers() -> list[tuple[int, int]]:
    """Return operands whose power is an odd integer of 25 bits times a power of two."""
    return [
        (
            encode(Fraction(root) ** order * Fraction(2) ** (scale * order)),
            encode(Fraction(n, order)),
        )
        for n in range(2, 16)
        for root in range(3, 5793, 2)
        if (root**n).bit_length() == 25
        for order in (1, 2, 4, 8)
        if root**order < 1 << 24 and (n % 2 or order == 1)
        for scale in (-3, 0, 2)
    ]


def find_small_powers() -> list[tuple[int, int]]:
    """Return operands whose power is an odd multiple of 2^-150, or 2^-150 itself."""
    pairs = [
        (encode(Fraction(root, 1 << 150 // n)), encode(n))
        for n in (2, 3, 5, 6, 10, 15)
        for root in (3, 5, 7, 9, 31, 1023, 2897, 4095)
        if root**n < 1 << 24
    ]
    for scale in range(-149, 128):
        y = Fraction(-150, scale) if scale else Fraction(1, 3)
        if y.denominator & (y.denominator - 1) == 0:
            pairs.append((encode(Fraction(2) ** scale), encode(y)))
    return pairs


HALF_WAY = find_long_powers() + find_small_powers()


def draw_pairs(seed: int, count: int) -> list[tuple[int, int]]:
    """Return pairs of any bits, of moderate size, near 1, and with few digits."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        sign = rng.getrandbits(1) << 31
        near = rng.randrange(-1 << rng.randrange(1, 23), 1 << rng.randrange(1, 23))
        short = encode(Fraction(rng.randrange(-20, 21), 1 << rng.randrange(4)))
        pairs += [
            (rng.getrandbits(32), rng.getrandbits(32)),
            (rng.randrange(100 << 23, 150 << 23), sign | rng.randrange(110 << 23, 134 << 23)),
            (ONE + near, sign | rng.randrange(100 << 23, 160 << 23)),
            (sign | rng.randrange(255) << 23 | rng.getrandbits(rng.randrange(24)), short),
        ]
    return pairs


def test_specials(contract: Bytecode) -> None:
    """Zeros, ones, infinities, NaN, integers and extremes agree in every combination."""
    vectors = list(product(SPECIALS, SPECIALS[::2]))
    assert_correctly_rounded(contract, "pow", Function.POW, vectors)


@pytest.mark.parametrize("count", [pytest.param(250, marks=pytest.mark.slow), 80])
def test_drawn_operands(contract: Bytecode, count: int) -> None:
    """Operands of any kind are rounded correctly."""
    assert_correctly_rounded(contract, "pow", Function.POW, draw_pairs(3, count))


@pytest.mark.parametrize("stride", [pytest.param(9, marks=pytest.mark.slow), 29])
def test_half_way_powers(contract: Bytecode, stride: int) -> None:
    """A power half way between two numbers becomes the even one, and its neighbours are right."""
    some = HALF_WAY[::stride]
    near = [pair for x, y in some[::3] for pair in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1))]
    assert_correctly_rounded(contract, "pow", Function.POW, some + near)


def test_half_way_is_proved() -> None:
    """Half-way powers are known as such, at their own place only, and no others are."""
    for x, y in HALF_WAY:
        even = round_exactly(Function.POW, x, y)
        below, above = (even - 1, even), (even, even + 1)
        found = [
            low for low, _ in (below, above) if low >= 0 and load("power")._is_half_way(x, y, low)
        ]
        assert len(found) == 1
        assert not load("power")._is_half_way(x, y ^ float32.SIGN, found[0])
        assert not load("power")._is_half_way(x + 1, y, found[0])
        assert not load("power")._is_half_way(x, y + 1, found[0])
        assert not load("power")._is_half_way(x, y + (1 << 23), found[0])


def is_right(power: Callable[[int, int], int], pair: tuple[int, int]) -> bool:
    """Return whether a power is right; False if it is refused, an error if it is wrong."""
    try:
        result = power(*pair)
    except Reverted as error:
        if error.reason != "power: undecided":
            raise
        return False
    assert result == load("power").pow(*pair)
    return True


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_is_not_known_reverts(tmp_path: Path, seed: int) -> None:
    """With a margin of a quarter of an ulp a power is right or refused, and half-way ones right."""
    wide = load_changed("power", "= 1 << 16\n", "= 1 << 98\n", tmp_path)
    for x, y in HALF_WAY[seed::50]:
        assert wide.pow(x, y) == load("power").pow(x, y)
    refused = [pair for pair in draw_pairs(seed, 300) if not is_right(wide.pow, pair)]
    assert len(refused) > 30


@given(x=PATTERNS, y=PATTERNS)
@example(x=ONE + 1, y=0x4EB17218)
@example(x=ONE - 1, y=0x4F0A0000)
def test_any_operands(x: int, y: int) -> None:
    """Whatever the operands, the integer code rounds correctly."""
    assert load("power").pow(x, y) == round_exactly(Function.POW, x, y)


@given(x=st.integers(0x3A000000, 0x46000000), y=st.integers(0x3A000000, 0x42000000))
def test_moderate_operands(x: int, y: int) -> None:
    """Powers of moderate size agree with the readable definition as well."""
    assert load("power").pow(x, y) == elementary.power(x, y)


def test_squares_and_reciprocals() -> None:
    """A power with exponent 1, 2 or -1 is a product or a quotient of IEEE 754."""
    for x, _ in draw_pairs(5, 100):
        assert load("power").pow(x, encode(1)) == float32.canonical(x)
        assert load("power").pow(x, encode(2)) == float32.multiply(x, x)
        assert load("power").pow(x, encode(-1)) == float32.divide(ONE, x)


def test_gas(contract: Bytecode) -> None:
    """The mean is below 10,000 gas, the call from outside included, and none is above 20,000."""
    vectors = [*product(SPECIALS[::3], SPECIALS[::4]), *draw_pairs(4, 100), *HALF_WAY[::20]]
    gas = contract.measure("pow", vectors)
    assert mean(gas) < 10_000
    assert max(gas) < 20_000
