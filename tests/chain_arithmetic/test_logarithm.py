"""log, log2 and log1p in Vyper, against MPFR."""

from collections.abc import Iterator
from math import sqrt
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
    SPECIALS,
    assert_correctly_rounded,
    draw_operands,
    expose,
    get_hardest,
    load_changed,
    surround,
)
from tests.sweeps.oracle import round_exactly, to_float

FUNCTIONS = {"ln": Function.LOG, "log2": Function.LOG2, "log1p": Function.LOG1P}
EDGES = [53 / 128, 75 / 256, 0.5, 1, 2, 3, 181 / 128, 181 / 256, sqrt(2), sqrt(0.5), 1 - sqrt(0.5)]
EDGES += [2.0**n * factor for n in range(-149, 128, 12) for factor in (1, 1.25, 1.5)]
"""Where the reduction takes another step, and numbers of every size."""

POINT = 124
FINE_POINT = 148
PRECISE = gmpy2.context(precision=400)

PORT = load("logarithm")
each_function = pytest.mark.parametrize("name", FUNCTIONS)


@pytest.fixture(scope="module")
def contract() -> Iterator[Bytecode]:
    """The module's functions on a chain."""
    with deployed("exposed", expose("logarithm", FUNCTIONS)) as exposed:
        yield exposed


@each_function
def test_hard_operands(contract: Bytecode, name: str) -> None:
    """Specials, edges of the reduction and the hardest of all operands are rounded correctly."""
    operands = [*SPECIALS, *surround(EDGES), *get_hardest(FUNCTIONS[name])]
    vectors = [(x,) for x in operands]
    assert_correctly_rounded(contract, name, FUNCTIONS[name], vectors)


@each_function
def test_drawn_operands(contract: Bytecode, name: str) -> None:
    """Operands of any kind are rounded correctly."""
    vectors = [(x,) for x in draw_operands(FUNCTIONS[name], 200)]
    assert_correctly_rounded(contract, name, FUNCTIONS[name], vectors)


def test_powers_of_two(contract: Bytecode) -> None:
    """The logarithm of a power of two, subnormal or not, to base 2 is its exponent, exactly."""
    exponents = range(-149, 128)
    vectors = [(float32.encode(0, 1, n),) for n in exponents]
    expected = [float32.encode(int(n < 0), abs(n), 0) for n in exponents]
    assert contract.run("log2", vectors) == expected


@each_function
@given(x=st.integers(0, (1 << 32) - 1))
def test_any_operand(name: str, x: int) -> None:
    """Whatever the operand, the integer code rounds correctly."""
    assert getattr(PORT, name)(x) == round_exactly(FUNCTIONS[name], x)


@given(v=st.integers(-75 << (POINT - 8), 53 << (POINT - 7)).filter(bool))
@example(v=-75 << (POINT - 8))
@example(v=53 << (POINT - 7))
@example(v=-1)
def test_slope_is_as_near_as_said(v: int) -> None:
    """The slope is off by less than 2^-118 of itself over its whole range."""
    with gmpy2.context(PRECISE):
        x = gmpy2.mpfr(v) / 2**POINT
        ratio = PORT.slope(abs(v), v < 0) / (gmpy2.log1p(x) / x * 2**POINT)
        assert abs(ratio - 1) < 2.0**-118


@given(x=st.integers(1, float32.INFINITY - 1), is_binary=st.booleans())
@example(x=float32.ONE - 1, is_binary=True)
@example(x=float32.ONE + 1, is_binary=False)
@example(x=1, is_binary=False)
def test_logarithm_is_as_near_as_said(x: int, is_binary: bool) -> None:  # noqa: FBT001 (drawn)
    """A logarithm is off by less than 2^-116 of itself before it is rounded."""
    sign, size = PORT.of_number(x, is_binary)
    with gmpy2.context(PRECISE):
        exact = (gmpy2.log2 if is_binary else gmpy2.log)(gmpy2.mpfr(to_float(x)))
        if exact == 0:
            assert (sign, size) == (0, 0)
        else:
            found = gmpy2.mpfr(-size if sign else size) / 2**FINE_POINT
            assert abs(found / exact - 1) < 2.0**-116


@each_function
@given(x=st.integers(0, float32.INFINITY - 1))
def test_monotone(name: str, x: int) -> None:
    """Rounding keeps the order of values."""
    function = getattr(PORT, name)
    low, high = function(x), function(x + 1)
    assert not float32.less(high, low)


@each_function
def test_gas(contract: Bytecode, name: str) -> None:
    """No call is dear: less than 8,000 gas, the call from outside included."""
    operands = [*SPECIALS, *surround(EDGES), *draw_operands(1, 100)]
    gas = contract.measure(name, [(x,) for x in operands])
    assert mean(gas) < max(gas) < 8_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LEVELS: constant(uint256) = 16", "LEVELS: constant(uint256) = 6"),
        ("431_860\n", "431_860 >> 94 << 94\n"),
    ],
    ids=["levels", "ln2"],
)
def test_hard_operands_tell(tmp_path: Path, old: str, new: str) -> None:
    """With an error of 2^-54 some of the hardest operands come out wrong: they can tell."""
    changed = load_changed("logarithm", old, new, tmp_path)
    assert [
        x
        for name, function in FUNCTIONS.items()
        for x in get_hardest(function)
        if getattr(changed, name)(x) != getattr(PORT, name)(x)
    ]
