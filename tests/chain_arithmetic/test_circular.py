"""Sine, cosine and tangent on the chain: the reduction of angles, and the errors of series."""

from fractions import Fraction
from pathlib import Path

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.contracts.port import load
from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.functions import Function
from tests.chain_arithmetic.families import FAMILIES, get_functions, is_right
from tests.chain_arithmetic.rounding import get_hardest, load_changed, surround
from tests.quick import every
from tests.sweeps.oracle import round_exactly, to_float

FUNCTIONS = list(get_functions("circular").values())

EXPONENTS = range(-24, 105)
"""Of the operands that are reduced, m * 2^exponent with m < 2^24."""

ONE = 1 << 126
UNIT = 1_024 - 126
"""The number 1 in the contract's fixed point, and the exponent of its units."""

EIGHTH_TURN = 66_814_286_504_060_421_741_230_023_322_616_923_956
PRECISE = gmpy2.context(precision=700)


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


@settings(deadline=None)
@given(st.sampled_from(FUNCTIONS), st.sampled_from(EXPONENTS), st.integers(-2, 2))
def test_next_to_multiples_of_a_quarter_turn(function: Function, exponent: int, by: int) -> None:
    """Where most bits cancel the result is MPFR's."""
    x = float32.encode(0, find_nearest(exponent), exponent) + by
    assert is_right(function, x)
    assert is_right(function, x ^ float32.SIGN)


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
    every(
        6,
        [
            ("1_098_447_047_058_148_710_457_028", "1_098_447_047_058_148_710_457_029"),
            ("133_628_573_008_120_843_482", "133_628_573_008_120_853_482"),
            ("return quarters, sign,", "return quarters, 0,"),
            ("ONE // 362_880", "ONE // 362_881"),
        ],
    ),
    ids=["2 / pi", "pi / 2", "sign", "series"],
)
def test_mistakes_show(tmp_path: Path, old: str, new: str) -> None:
    """The operands of these tests find a wrong digit, sign or coefficient."""
    broken = load_changed("circular", old, new, tmp_path)
    operands = [*get_hardest(Function.SIN), *surround(FAMILIES["circular"].edges)]
    assert any(broken.sin(x) != round_exactly(Function.SIN, x) for x in operands)
