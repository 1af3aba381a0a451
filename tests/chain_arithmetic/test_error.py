"""The error function and its complement on the chain: the errors that their proofs allow."""

from pathlib import Path

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.contracts.port import load
from moot.offchain.arithmetic.functions import Function
from tests.chain_arithmetic.families import FAMILIES, get_functions, is_right
from tests.chain_arithmetic.rounding import draw_operands, get_hardest, load_changed, surround
from tests.quick import every
from tests.sweeps.oracle import WIDE, round_exactly, to_float

HALF, EIGHT, ELEVEN = 0x3F000000, 0x41000000, 0x41300000


def compute_error(approximation: tuple[int, int], exact: gmpy2.mpfr) -> gmpy2.mpfr:
    """Return how far value * 2^(exponent - 1,024) is from a number, in parts of it."""
    value, exponent = approximation
    return abs(value * gmpy2.mpfr(2) ** (exponent - 1_024) / exact - 1)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(get_functions("error").values())),
    st.integers(90 << 23, ELEVEN),
    st.sampled_from((0, 1 << 31)),
)
def test_operands_of_moderate_size(function: Function, magnitude: int, sign: int) -> None:
    """Between what rounds to x or 1 and what rounds to the limits, the result is MPFR's."""
    assert is_right(function, sign | magnitude)


@settings(deadline=None)
@given(st.integers(1, HALF - 1))
def test_error_of_series(x: int) -> None:
    """Below 1 / 2 erf is off by less than 2^-98 of itself, as the proof says."""
    with gmpy2.context(WIDE):
        error = compute_error(load("error")._near(x), gmpy2.erf(gmpy2.mpfr(to_float(x))))
        assert error < gmpy2.mpfr(2) ** -98


@settings(deadline=None)
@given(st.one_of(st.integers(HALF, ELEVEN - 1), st.integers(EIGHT - 99, EIGHT + 99)))
def test_error_of_trapezoidal_rule(x: int) -> None:
    """From 1 / 2 on erfc is off by less than 2^-95 of itself, as the proof says."""
    with gmpy2.context(WIDE):
        error = compute_error(load("error")._beyond(x), gmpy2.erfc(gmpy2.mpfr(to_float(x))))
        assert error < gmpy2.mpfr(2) ** -95


@pytest.mark.parametrize(
    ("old", "new"),
    every(
        12,
        [
            (
                "WEIGHT_4: constant(uint256) = 2_410_061_046",
                "WEIGHT_4: constant(uint256) = 2_411_061_046",
            ),
            ("5_701_485_781_679_822", "5_711_485_781_679_822"),
            ("if magnitude < WITHOUT_POLE:", "if magnitude > WITHOUT_POLE:"),
            (
                "return float32.encode(0, value, exponent)",
                "return float32.encode(0, value >> 104 << 104, exponent)",
            ),
            ("WITHOUT_POLE: constant(uint256) = 130", "WITHOUT_POLE: constant(uint256) = 127"),
        ],
    ),
    ids=["weight", "rate", "pole", "bits", "place"],
)
def test_mistakes_show(tmp_path: Path, old: str, new: str) -> None:
    """The operands of these tests find a wrong constant, a lost term or lost bits."""
    broken = load_changed("error", old, new, tmp_path)
    around = surround(FAMILIES["error"].edges)
    operands = [*get_hardest(Function.ERFC), *around, *draw_operands(2, 60)]
    assert any(broken.erfc(x) != round_exactly(Function.ERFC, x) for x in operands)
