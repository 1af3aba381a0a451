"""Transcendental functions against MPFR, which rounds correctly by algorithms of its own."""

import itertools
import random
import struct
from collections.abc import Callable, Iterator

import gmpy2
import pytest
from mpmath import libmp

from moot.offchain.arithmetic import elementary, float32
from moot.offchain.arithmetic.functions import Function
from tests.quick import every
from tests.sweeps.oracle import MPFR, WIDE, round_exactly, to_float


def from_number(value: float) -> int:
    """Return the pattern nearest to a number."""
    return int.from_bytes(struct.pack("<f", value), "little")


OURS = {**elementary.UNARY, Function.RSQRT: elementary.reciprocal_square_root}

EDGES = [
    *(0, 1, 2, 0x007FFFFF, 0x00800000, 0x00800001, 0x33000000, 0x33800000, 0x34000000, 0x39800000),
    *(0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC90FDB, 0x40490FDB, 0x40C90FDB),
    *(0x5F000000, 0x7F000000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000),
]
NUMBERS = [
    *(4, 9.010913, 10, 10.05, 10.06, 11, 16.63, 17.32, 18, 87.33, 88.72, 88.73, 89, 89.4, 89.5, 90),
    *(103.27, 103.28, 103.97, 103.98, 104, 126, 127, 128, 148, 149, 150, 0.25, 2, 3, 8, 9, 1024),
]
HARDEST = [
    *(0xC16912CD, 0xBBF0EDF1, 0xBAE0E25C, 0xB3000000),  # exp
    *(0x3940EAD6, 0x39C0057D, 0xB76C9F62, 0x344683CC),  # erf, erfc
]
"""Operands whose values come nearest to a half-way point, of all operands."""


def with_neighbours(patterns: list[int]) -> list[int]:
    """Return patterns of both signs, and the three on either side of each."""
    return [
        (magnitude + step) & 0x7FFFFFFF | sign
        for magnitude, step, sign in itertools.product(patterns, range(-3, 4), (0, float32.SIGN))
    ]


def operands(seed: int) -> Iterator[int]:
    """Edges, bounds of the ranges, patterns of all exponents, and numbers of moderate size."""
    rng = random.Random(seed)
    yield from with_neighbours([*EDGES, *map(from_number, NUMBERS)])
    yield from HARDEST
    yield from (rng.getrandbits(32) for _ in range(10_000))
    yield from (
        rng.getrandbits(1) << 31 | rng.randrange(0x37000000, 0x43200000) for _ in range(10_000)
    )


@pytest.mark.parametrize("function", every(16, OURS), ids=lambda function: function.name)
def test_function_is_correctly_rounded(function: Function) -> None:
    """Each is MPFR's at 24 bits, on edges, saturation bounds and patterns of all kinds."""
    for x in operands(function):
        assert OURS[function](x) == round_exactly(function, x), hex(x)


def test_every_transcendental_function_is_compared() -> None:
    """No unary function of the table is left out of the comparison."""
    transcendental = {function for function in Function if function.is_transcendental}
    assert set(OURS) == transcendental - {Function.POW}


@pytest.mark.parametrize("function", elementary.UNARY, ids=lambda function: function.name)
def test_evaluations_are_as_precise_as_the_loop_assumes(function: Function) -> None:
    """Evaluations are right to all asked bits but the guard bits, near zero too."""
    rng = random.Random(function)
    unary = elementary.UNARY[function]
    assert isinstance(unary, elementary._Unary)
    for precision in (64, 100, 200):
        asked = precision + elementary._GUARD_BITS
        for _ in range(200):
            x = float32.encode(0, rng.randrange(1 << 23, 1 << 24), rng.randrange(-60, -20))
            sign, significand, exponent, _ = unary.evaluate(elementary._exact(x), asked)
            with gmpy2.context(WIDE):
                expected = MPFR[function](gmpy2.mpfr(to_float(x)))
                value = gmpy2.mpfr(int(significand)) * gmpy2.exp2(exponent)
                error = (-value if sign else value) / expected - 1
            assert abs(error) < 2.0**-precision


def power_pairs() -> Iterator[tuple[int, int]]:
    """Specials, exact and half-way powers, near 1, near overflow and underflow, and the rest."""
    rng = random.Random(17)
    edges = [*EDGES, *map(from_number, (0.25, 0.5, 1.5, 2, 3, 3.5, 5, 7.5, 126, 150))]
    signed = [x | sign for x in edges for sign in (0, float32.SIGN)]
    yield from itertools.product(signed, signed)
    for odd, n, j in itertools.product((1, 3, 5, 7, 11, 4097), (1, 2, 3, 5, 7, 15, 16), range(6)):
        base = odd ** (2**j)
        for scale in (-6, 0, 4, 16, 64):
            x = float32.encode(0, base, scale)
            yield x, float32.encode(0, n, -j)
            yield x, float32.encode(1, n, -j)
            yield x + 1, float32.encode(0, n, -j)
            yield x, float32.encode(0, n, -j) + 1
    for y in range(140, 152):
        yield from_number(2.0), float32.encode(1, y, 0)
        yield from_number(0.5), float32.encode(0, y, 0)
        yield from_number(-0.5), float32.encode(0, y, 0)
    for _ in range(10_000):
        yield 0x3F800000 + rng.randrange(-5_000, 5_000), rng.getrandbits(32)
        yield rng.getrandbits(32), rng.getrandbits(1) << 31 | rng.randrange(0x3A000000, 0x43000000)
        yield rng.getrandbits(31), rng.getrandbits(32)


def test_power_is_correctly_rounded() -> None:
    """The power is MPFR's at 24 bits, and has the special values of C's pow."""
    for x, y in power_pairs():
        assert elementary.power(x, y) == round_exactly(Function.POW, x, y), (hex(x), hex(y))


@pytest.mark.parametrize(
    ("base", "exponent", "exact"),
    [(4097.0, 2.0, 4097**2), (5.0**8, 1.25, 5**10), (3.0, 15.0, 3**15), (66049.0, 1.5, 257**3)],
)
def test_half_way_powers_terminate(base: float, exponent: float, exact: int) -> None:
    """Rational powers of up to 25 bits, half-way ones among them, do not reach the loop."""
    x, y = from_number(base), from_number(exponent)
    assert elementary._exact_power(x, y) == float32.encode(0, exact, 0)
    assert elementary.power(x, y) == float32.encode(0, exact, 0)


@pytest.mark.parametrize(("base", "exponent"), [(2.0, 0.5), (3.0, 16.0), (3.0, -1.0), (9.0, 0.25)])
def test_other_powers_are_not_exact(base: float, exponent: float) -> None:
    """Powers that are irrational, longer, or no binary fraction are left to the loop."""
    assert elementary._exact_power(from_number(base), from_number(exponent)) is None


def test_loop_raises_its_precision_until_the_rounding_is_decided() -> None:
    """A value within 2^-200 of a half-way point is settled to its side, past 200 bits."""
    half_way = (1 << 24) + 1
    asked: list[int] = []

    def evaluate_beside(side: int) -> Callable[[int], tuple[int, int, int, int]]:
        def evaluate(precision: int) -> tuple[int, int, int, int]:
            asked.append(precision)
            exact = (half_way << 200) + side
            real: tuple[int, int, int, int] = libmp.from_man_exp(exact, -224, precision, "n")
            return real

        return evaluate

    assert elementary._settle(evaluate_beside(-1), 64) == float32.ONE
    assert elementary._settle(evaluate_beside(+1), 64) == float32.ONE + 1
    assert max(asked) > 200
