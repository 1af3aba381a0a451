"""exp, exp2, expm1, sigmoid, tanh, sinh and cosh in Vyper, against MPFR."""

from collections.abc import Iterator
from math import log
from pathlib import Path
from statistics import mean

import gmpy2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.port import load
from offchain.arithmetic import float32
from offchain.arithmetic.functions import Function
from tests.chain_arithmetic.bytecode import Bytecode, deployed
from tests.chain_arithmetic.rounding import (
    SIGN,
    SPECIALS,
    assert_correctly_rounded,
    draw_operands,
    expose,
    get_hardest,
    load_changed,
    surround,
)
from tests.sweeps.oracle import round_exactly

FUNCTIONS = {
    "exp": Function.EXP,
    "exp2": Function.EXP2,
    "expm1": Function.EXPM1,
    "sigmoid": Function.SIGMOID,
    "tanh": Function.TANH,
    "sinh": Function.SINH,
    "cosh": Function.COSH,
}
LIMITS = [150, 149, 128, 127, 126, 104, 103.97, 103.28, 90, 89.416, 89, 88.72, 87.34, 18, 17.33]
LIMITS += [16.64, 10, 9.01, *(count * log(2) for count in (0.5, 1, 2, 3, 24, 127, 128))]
"""Where results reach a limit or become subnormal, and where the reduction takes another step."""

POINT = 124
LN_2 = 14_741_610_201_594_580_883_621_508_922_759_655_274
PRECISE = gmpy2.context(precision=400)

PORT = load("exponential")
each_function = pytest.mark.parametrize("name", FUNCTIONS)


@pytest.fixture(scope="module")
def contract() -> Iterator[Bytecode]:
    """The module's functions on a chain."""
    with deployed("exposed", expose("exponential", FUNCTIONS)) as exposed:
        yield exposed


@each_function
def test_hard_operands(contract: Bytecode, name: str) -> None:
    """Specials, limits, reductions and the hardest of all operands are rounded correctly."""
    operands = [*SPECIALS, *surround(LIMITS), *get_hardest(FUNCTIONS[name])]
    vectors = [(x,) for x in operands]
    assert_correctly_rounded(contract, name, FUNCTIONS[name], vectors)


@each_function
def test_drawn_operands(contract: Bytecode, name: str) -> None:
    """Operands of any kind are rounded correctly."""
    vectors = [(x,) for x in draw_operands(FUNCTIONS[name], 200)]
    assert_correctly_rounded(contract, name, FUNCTIONS[name], vectors)


@pytest.mark.parametrize(("name", "least"), [("exp", -103.98), ("exp2", -150), ("sigmoid", -104)])
def test_subnormal_results(contract: Bytecode, name: str, least: float) -> None:
    """Results below the normal numbers are rounded once, at their own last place."""
    vectors = [(x,) for part in range(100) for x in surround([least * (1 - part / 600)])]
    assert_correctly_rounded(contract, name, FUNCTIONS[name], vectors)


def test_powers_of_two(contract: Bytecode) -> None:
    """Integers have exact powers of two, and the one half way between 0 and 2^-149 becomes 0."""
    integers = range(-151, 129)
    vectors = [(float32.encode(int(n < 0), abs(n), 0),) for n in integers]
    expected = [float32.encode(0, 1, n) for n in integers]
    assert expected[1] == 0 != expected[2]
    assert contract.run("exp2", vectors) == expected


@each_function
@given(x=st.integers(0, (1 << 32) - 1))
def test_any_operand(name: str, x: int) -> None:
    """Whatever the operand, the integer code rounds correctly."""
    assert getattr(PORT, name)(x) == round_exactly(FUNCTIONS[name], x)


@given(rest=st.integers(1, LN_2))
@example(rest=1)
@example(rest=LN_2)
def test_growth_is_as_near_as_said(rest: int) -> None:
    """The growth is off by less than 3 units."""
    with gmpy2.context(PRECISE):
        r = gmpy2.mpfr(rest) / 2**POINT
        assert abs(gmpy2.expm1(r) / r * 2**POINT - PORT.growth(rest)) < 3


@given(y=st.integers(0, 152 << POINT), is_negative=st.booleans())
@example(y=1 << POINT, is_negative=False)
@example(y=(1 << POINT) - 1, is_negative=True)
def test_power_of_two_is_as_near_as_said(y: int, is_negative: bool) -> None:  # noqa: FBT001 (drawn)
    """A power of two is off by less than 2^-120 of itself, and its significand in range."""
    significand, exponent = PORT.power_of_two(y, is_negative)
    assert 1 << (POINT - 1) <= significand <= 1 << (POINT + 1)
    with gmpy2.context(PRECISE):
        power = gmpy2.exp2(gmpy2.mpfr(-y if is_negative else y) / 2**POINT)
        ratio = gmpy2.mpfr(significand) * gmpy2.mpfr(2) ** (exponent - 1024) / power
        assert abs(ratio - 1) < 2.0**-120


@pytest.mark.parametrize("name", ["expm1", "tanh", "sinh"])
@given(x=st.integers(0, float32.INFINITY))
def test_odd_and_monotone(name: str, x: int) -> None:
    """Rounding keeps the order of values, and the symmetry of odd functions."""
    function = getattr(PORT, name)
    if x < float32.INFINITY:
        assert function(x) <= function(x + 1)
    if name != "expm1":
        assert function(SIGN | x) == SIGN | function(x)


@each_function
def test_gas(contract: Bytecode, name: str) -> None:
    """No call is dear: less than 4,000 gas, the call from outside included."""
    operands = [*SPECIALS, *surround(LIMITS), *draw_operands(1, 100)]
    gas = contract.measure(name, [(x,) for x in operands])
    assert mean(gas) < max(gas) < 4_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LEVELS: constant(uint256) = 12", "LEVELS: constant(uint256) = 3"),
        ("655_274\n", "655_274 >> 70 << 70\n"),
    ],
    ids=["levels", "ln2"],
)
def test_hard_operands_tell(tmp_path: Path, old: str, new: str) -> None:
    """With an error of 2^-54 some of the hardest operands come out wrong: they can tell."""
    changed = load_changed("exponential", old, new, tmp_path)
    assert [
        x
        for name, function in FUNCTIONS.items()
        for x in get_hardest(function)
        if getattr(changed, name)(x) != getattr(PORT, name)(x)
    ]
