"""exp and its family in Vyper: the errors that its proofs allow, and the order of results."""

import gmpy2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moot.contracts.port import load
from moot.offchain.arithmetic import float32
from tests.chain_arithmetic.rounding import SIGN
from tests.sweeps.oracle import WIDE

POINT = 124
LN_2 = 14_741_610_201_594_580_883_621_508_922_759_655_274


@given(rest=st.integers(1, LN_2))
@example(rest=1)
@example(rest=LN_2)
def test_growth_is_as_near_as_said(rest: int) -> None:
    """The growth is off by less than 3 units."""
    with gmpy2.context(WIDE):
        r = gmpy2.mpfr(rest) / 2**POINT
        assert abs(gmpy2.expm1(r) / r * 2**POINT - load("exponential").growth(rest)) < 3


@given(y=st.integers(0, 152 << POINT), is_negative=st.booleans())
@example(y=1 << POINT, is_negative=False)
@example(y=(1 << POINT) - 1, is_negative=True)
def test_power_of_two_is_as_near_as_said(y: int, is_negative: bool) -> None:  # noqa: FBT001 (drawn)
    """A power of two is off by less than 2^-120 of itself, and its significand in range."""
    significand, exponent = load("exponential").power_of_two(y, is_negative)
    assert 1 << (POINT - 1) <= significand <= 1 << (POINT + 1)
    with gmpy2.context(WIDE):
        power = gmpy2.exp2(gmpy2.mpfr(-y if is_negative else y) / 2**POINT)
        ratio = gmpy2.mpfr(significand) * gmpy2.mpfr(2) ** (exponent - 1024) / power
        assert abs(ratio - 1) < 2.0**-120


@pytest.mark.parametrize("name", ["expm1", "tanh", "sinh"])
@given(x=st.integers(0, float32.INFINITY))
def test_odd_and_monotone(name: str, x: int) -> None:
    """Rounding keeps the order of values, and the symmetry of odd functions."""
    function = getattr(load("exponential"), name)
    if x < float32.INFINITY:
        assert function(x) <= function(x + 1)
    if name != "expm1":
        assert function(SIGN | x) == SIGN | function(x)
