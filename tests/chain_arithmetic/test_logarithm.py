"""log, log2 and log1p in Vyper: the errors that their proofs allow, and the order of results."""

import gmpy2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moot.contracts.port import load
from moot.offchain.arithmetic import float32
from tests.chain_arithmetic.families import get_functions
from tests.sweeps.oracle import WIDE, to_float

POINT = 124
FINE_POINT = 148


@given(v=st.integers(-75 << (POINT - 8), 53 << (POINT - 7)).filter(bool))
@example(v=-75 << (POINT - 8))
@example(v=53 << (POINT - 7))
@example(v=-1)
def test_slope_is_as_near_as_said(v: int) -> None:
    """The slope is off by less than 2^-118 of itself over its whole range."""
    with gmpy2.context(WIDE):
        x = gmpy2.mpfr(v) / 2**POINT
        ratio = load("logarithm").slope(abs(v), v < 0) / (gmpy2.log1p(x) / x * 2**POINT)
        assert abs(ratio - 1) < 2.0**-118


@given(x=st.integers(1, float32.INFINITY - 1), is_binary=st.booleans())
@example(x=float32.ONE - 1, is_binary=True)
@example(x=float32.ONE + 1, is_binary=False)
@example(x=1, is_binary=False)
def test_logarithm_is_as_near_as_said(x: int, is_binary: bool) -> None:  # noqa: FBT001 (drawn)
    """A logarithm is off by less than 2^-116 of itself before it is rounded."""
    sign, size = load("logarithm").of_number(x, is_binary)
    with gmpy2.context(WIDE):
        exact = (gmpy2.log2 if is_binary else gmpy2.log)(gmpy2.mpfr(to_float(x)))
        if exact == 0:
            assert (sign, size) == (0, 0)
        else:
            found = gmpy2.mpfr(-size if sign else size) / 2**FINE_POINT
            assert abs(found / exact - 1) < 2.0**-116


@pytest.mark.parametrize("name", get_functions("logarithm"))
@given(x=st.integers(0, float32.INFINITY - 1))
def test_monotone(name: str, x: int) -> None:
    """Rounding keeps the order of values."""
    function = getattr(load("logarithm"), name)
    low, high = function(x), function(x + 1)
    assert not float32.less(high, low)
