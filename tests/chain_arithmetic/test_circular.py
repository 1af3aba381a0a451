"""Sine, cosine and tangent on the chain: correctly rounded for every finite operand."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from statistics import mean

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.port import load
from offchain.arithmetic import float32
from offchain.arithmetic.functions import Function
from tests.chain_arithmetic.bytecode import Bytecode, deployed
from tests.chain_arithmetic.rounding import (
    SPECIALS,
    assert_correctly_rounded,
    draw_operands,
    expose,
    get_hardest,
    load_changed,
    surround,
)
from tests.sweeps.oracle import round_exactly, to_float

FUNCTIONS = {"sin": Function.SIN, "cos": Function.COS, "tan": Function.TAN}
TURNS = (0.5, 0.7853982, 1.5707964, 2.3561945, 3.1415927, 4.712389, 6.2831855, 2.0**104)
"""Where reduction begins, multiples of an eighth of a turn, and a large power of two."""

EXPONENTS = range(-24, 105)
"""Of the operands that are reduced, m * 2^exponent with m < 2^24."""

ONE = 1 << 126
UNIT = 1_024 - 126
"""The number 1 in the contract's fixed point, and the exponent of its units."""

EIGHTH_TURN = 66_814_286_504_060_421_741_230_023_322_616_923_956
PRECISE = gmpy2.context(precision=700)


@pytest.fixture(scope="module")
def contract() -> Iterator[Bytecode]:
    """The three functions, callable."""
    with deployed("wrapper", expose("circular", FUNCTIONS)) as bytecode:
        yield bytecode


def find_nearest(exponent: int) -> int:
    """Return the m < 2^24 for which m * 2^exponent is nearest to a multiple of pi / 2.

    It is the denominator of a convergent of the continued fraction of 2^exponent * 2 / pi.
    """
    with gmpy2.context(PRECISE):
        ratio = Fraction(*(gmpy2.mpfr(2) ** (exponent + 1) / gmpy2.const_pi()).as_integer_ratio())
    before, denominator = 0, 1
    while True:
        ratio = 1 / (ratio % 1)
        before, denominator = denominator, int(ratio) * denominator + before
        if denominator >= 1 << 24:
            return before


def get_distance(significand: int, exponent: int) -> gmpy2.mpfr:
    """Return how far significand * 2^exponent is from a multiple of pi / 2, in quarter turns."""
    with gmpy2.context(PRECISE):
        turns = significand * gmpy2.mpfr(2) ** (exponent + 1) / gmpy2.const_pi()
        return abs(turns - gmpy2.rint(turns))


def is_right(name: str, x: int) -> bool:
    """Return whether the port's result is MPFR's."""
    return bool(getattr(load("circular"), name)(x) == round_exactly(FUNCTIONS[name], x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bytecode(contract: Bytecode, name: str) -> None:
    """The bytecode rounds correctly: hardest operands, special ones, turns, and any."""
    operands = [*get_hardest(FUNCTIONS[name]), *SPECIALS, *surround(TURNS), *draw_operands(2, 60)]
    assert_correctly_rounded(contract, name, FUNCTIONS[name], [(x,) for x in operands])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gas(contract: Bytecode, name: str) -> None:
    """No operand, be it large, costs more than a few thousand gas."""
    gas = contract.measure(name, [(x,) for x in draw_operands(4, 60)])
    assert mean(gas) < max(gas) < 4_000


@settings(deadline=None)
@given(st.sampled_from(sorted(FUNCTIONS)), st.integers(0, (1 << 32) - 1))
def test_any_operand(name: str, x: int) -> None:
    """Whatever the operand is, the result is MPFR's."""
    assert is_right(name, x)


@settings(deadline=None)
@given(st.sampled_from(sorted(FUNCTIONS)), st.sampled_from(EXPONENTS), st.integers(-2, 2))
def test_next_to_multiples_of_a_quarter_turn(name: str, exponent: int, by: int) -> None:
    """Where most bits cancel the result is MPFR's."""
    x = float32.encode(0, find_nearest(exponent), exponent) + by
    assert is_right(name, x)
    assert is_right(name, x ^ float32.SIGN)


def test_nearest_multiple_of_a_quarter_turn() -> None:
    """No reduced operand is closer to a multiple of pi / 2 than 2^-30 quarter turns."""
    nearest = {exponent: find_nearest(exponent) for exponent in EXPONENTS}
    distances = {e: get_distance(m, e) for e, m in nearest.items()}
    closest = min(distances, key=distances.__getitem__)
    assert (nearest[closest], closest) == (16_367_173, 72)
    assert gmpy2.mpfr(2) ** -30 < distances[closest] < gmpy2.mpfr(2) ** -29


@settings(deadline=None)
@given(st.sampled_from(EXPONENTS), st.integers(1 << 23, (1 << 24) - 1))
def test_error_of_reduced_angles(exponent: int, significand: int) -> None:
    """The angle of the rest is off by less than 2^-94 of itself, as the proof says."""
    for each in (significand, find_nearest(exponent)):
        x = float32.encode(0, each, exponent)
        if not 0x3F000000 <= x < float32.INFINITY:
            continue
        quarters, sign, angle, unit = load("circular")._reduce(x)
        with gmpy2.context(PRECISE):
            rest = gmpy2.mpfr(-angle if sign else angle) * gmpy2.mpfr(2) ** (unit - 1_024)
            turns = gmpy2.mpfr(to_float(x)) * 2 / gmpy2.const_pi()
            whole = gmpy2.rint(turns)
            exact = (turns - whole) * gmpy2.const_pi() / 2
            assert int(whole) % 4 == quarters
            assert abs(rest - exact) < abs(exact) * gmpy2.mpfr(2) ** -94


@settings(deadline=None)
@given(st.integers(1 << 120, EIGHTH_TURN))
def test_error_of_series(angle: int) -> None:
    """Sine and cosine are off by less than 2^-101 and 2^-106 of themselves, as the proofs say."""
    square = load("circular")._square(angle, UNIT)
    sine, cosine = load("circular")._sine(angle, square), load("circular")._cosine(square)
    with gmpy2.context(PRECISE):
        exact_sine, exact_cosine = gmpy2.sin_cos(gmpy2.mpfr(angle) / ONE)
        assert abs(sine / (exact_sine * ONE) - 1) < gmpy2.mpfr(2) ** -101
        assert abs(cosine / (exact_cosine * ONE) - 1) < gmpy2.mpfr(2) ** -106


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1_098_447_047_058_148_710_457_028", "1_098_447_047_058_148_710_457_029"),
        ("133_628_573_008_120_843_482", "133_628_573_008_120_853_482"),
        ("return quarters, sign,", "return quarters, 0,"),
        ("ONE // 362_880", "ONE // 362_881"),
    ],
    ids=["2 / pi", "pi / 2", "sign", "series"],
)
def test_mistakes_show(tmp_path: Path, old: str, new: str) -> None:
    """The operands of these tests find a wrong digit, sign or coefficient."""
    broken = load_changed("circular", old, new, tmp_path)
    operands = [*get_hardest(Function.SIN), *surround(TURNS)]
    assert any(broken.sin(x) != round_exactly(Function.SIN, x) for x in operands)
