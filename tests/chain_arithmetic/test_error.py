"""The error function and its complement on the chain: correctly rounded, down to the subnormals."""

import random
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.port import load
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

FUNCTIONS = {"erf": Function.ERF, "erfc": Function.ERFC}
BOUNDARIES = (0.5, 1.0, 2.0, 3.919206, 4.0, 8.0, 9.1945496, 9.9996805, 10.054195, 11.0)
"""Where the method changes, erf becomes 1, and erfc subnormal, the least number and 0."""

HALF, EIGHT, ELEVEN = 0x3F000000, 0x41000000, 0x41300000
FIRST_SUBNORMAL, FIRST_ZERO = 0x41131CE0, 0x4120DDFC
"""The operands from which on erfc is subnormal, and is 0."""

PRECISE = gmpy2.context(precision=400)


@pytest.fixture(scope="module")
def contract() -> Iterator[Bytecode]:
    """The two functions, callable."""
    with deployed("wrapper", expose("error", FUNCTIONS)) as bytecode:
        yield bytecode


def is_right(name: str, x: int) -> bool:
    """Return whether the port's result is MPFR's."""
    return bool(getattr(load("error"), name)(x) == round_exactly(FUNCTIONS[name], x))


def compute_error(approximation: tuple[int, int], exact: gmpy2.mpfr) -> gmpy2.mpfr:
    """Return how far value * 2^(exponent - 1,024) is from a number, in parts of it."""
    value, exponent = approximation
    return abs(value * gmpy2.mpfr(2) ** (exponent - 1_024) / exact - 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bytecode(contract: Bytecode, name: str) -> None:
    """The bytecode rounds correctly: hardest operands, special ones, boundaries, and any."""
    operands = [
        *(*get_hardest(FUNCTIONS[name]), *SPECIALS),
        *(*surround(BOUNDARIES), *draw_operands(2, 60)),
    ]
    assert_correctly_rounded(contract, name, FUNCTIONS[name], [(x,) for x in operands])


def test_subnormal_results_of_bytecode(contract: Bytecode) -> None:
    """The bytecode rounds once where the last places of a small result do not exist."""
    rng = random.Random(6)
    assert round_exactly(Function.ERFC, FIRST_SUBNORMAL - 1) >= 1 << 23
    assert round_exactly(Function.ERFC, FIRST_SUBNORMAL) < 1 << 23
    assert round_exactly(Function.ERFC, FIRST_ZERO - 1) == 1
    assert round_exactly(Function.ERFC, FIRST_ZERO) == 0
    drawn = [rng.randrange(FIRST_SUBNORMAL, FIRST_ZERO) for _ in range(120)]
    ends = [each + by for each in (FIRST_SUBNORMAL, FIRST_ZERO) for by in range(-8, 8)]
    assert_correctly_rounded(contract, "erfc", Function.ERFC, [(x,) for x in (*drawn, *ends)])
    tiny = [rng.randrange(1, 1 << rng.randrange(1, 24)) for _ in range(120)]
    assert_correctly_rounded(contract, "erf", Function.ERF, [(x,) for x in tiny])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gas(contract: Bytecode, name: str) -> None:
    """No operand costs more than a few thousand gas."""
    gas = contract.measure(name, [(x,) for x in (*surround(BOUNDARIES), *draw_operands(4, 40))])
    assert mean(gas) < max(gas) < 8_000


@settings(deadline=None)
@given(st.sampled_from(sorted(FUNCTIONS)), st.integers(0, (1 << 32) - 1))
def test_any_operand(name: str, x: int) -> None:
    """Whatever the operand is, the result is MPFR's."""
    assert is_right(name, x)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.integers(90 << 23, ELEVEN),
    st.sampled_from((0, 1 << 31)),
)
def test_operands_of_moderate_size(name: str, magnitude: int, sign: int) -> None:
    """Between what rounds to x or 1 and what rounds to the limits, the result is MPFR's."""
    assert is_right(name, sign | magnitude)


@settings(deadline=None)
@given(st.integers(1, HALF - 1))
def test_error_of_series(x: int) -> None:
    """Below 1 / 2 erf is off by less than 2^-98 of itself, as the proof says."""
    with gmpy2.context(PRECISE):
        error = compute_error(load("error")._near(x), gmpy2.erf(gmpy2.mpfr(to_float(x))))
        assert error < gmpy2.mpfr(2) ** -98


@settings(deadline=None)
@given(st.one_of(st.integers(HALF, ELEVEN - 1), st.integers(EIGHT - 99, EIGHT + 99)))
def test_error_of_trapezoidal_rule(x: int) -> None:
    """From 1 / 2 on erfc is off by less than 2^-95 of itself, as the proof says."""
    with gmpy2.context(PRECISE):
        error = compute_error(load("error")._beyond(x), gmpy2.erfc(gmpy2.mpfr(to_float(x))))
        assert error < gmpy2.mpfr(2) ** -95


@pytest.mark.parametrize(
    ("old", "new"),
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
    ids=["weight", "rate", "pole", "bits", "place"],
)
def test_mistakes_show(tmp_path: Path, old: str, new: str) -> None:
    """The operands of these tests find a wrong constant, a lost term or lost bits."""
    broken = load_changed("error", old, new, tmp_path)
    operands = [*get_hardest(Function.ERFC), *surround(BOUNDARIES), *draw_operands(2, 60)]
    assert any(broken.erfc(x) != round_exactly(Function.ERFC, x) for x in operands)
