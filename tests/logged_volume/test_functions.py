"""The bound of the functions of `logged` holds, and the numbers that say so are right."""

import platform

import gmpy2
import numpy as np
import pytest

from moot.offchain.arithmetic.functions import Function
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS
from tests.logged_volume import functions
from tests.sweeps.oracle import MPFR, WIDE

each_function = pytest.mark.parametrize("function", FUNCTIONS)
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="only x86 has numbers of 80 bits"
)


@each_function
def test_a_part_of_the_volume(function: Function) -> None:
    """Operands that are not those of the record stay well within the bound."""
    found, beyond, closest = functions.try_piece(function, 1, 0)
    assert found > functions.PIECE // 8
    assert beyond == 0
    assert 0 < closest < 0.25


@each_function
@np.errstate(all="ignore")
def test_the_oracle_is_right(function: Function) -> None:
    """What the C library has of 80 bits is what MPFR has of 400, to 2^-52 or better."""
    rng = np.random.default_rng(function)
    is_power = function is Function.POW
    operands = functions.draw_powers(rng) if is_power else (functions.draw(rng),)
    chosen = rng.choice(functions.PIECE, 300, replace=False)
    real = functions.WIDE[function](*(x[chosen].astype(np.longdouble) for x in operands))
    compared = 0
    for place, value in zip(chosen, real, strict=True):
        if not 2.0**-151 <= abs(value) < 2.0**128:
            continue
        with gmpy2.context(WIDE):
            exact = MPFR[function](*(gmpy2.mpfr(float(x[place])) for x in operands))
            # An 80-bit number is the sum of two of 64 bits.
            high = float(value)
            found = gmpy2.mpfr(high) + gmpy2.mpfr(float(value - high))
            assert abs(found - exact) <= abs(exact) * 2.0**-52
        compared += 1
    assert compared > 30


def test_a_bound_that_is_too_small_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousandth of the bound, results are beyond it."""
    monkeypatch.setattr(functions, "FUNCTION_EXPONENT", -56)
    assert functions.try_piece(Function.SIN, 1, 0)[1] > 0


@pytest.mark.slow
@each_function
def test_the_record_is_of_these_libraries(function: Function) -> None:
    """This machine's libraries were tried on 10^8 results of each function, and kept the bound."""
    record = functions.load()[function.name.lower()]
    assert record["versions"] == functions.get_versions(), "other libraries: try them again"
    assert record["results"] >= 100_000_000
    assert record["beyond"] == 0
