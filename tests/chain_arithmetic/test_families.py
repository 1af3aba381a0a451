"""The functions of one operand in Vyper, family by family: correctly rounded, by MPFR's word."""

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.contracts.port import load
from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.functions import Function
from tests.chain_arithmetic.bytecode import Bytecode, deployed
from tests.chain_arithmetic.families import FAMILIES, get_functions, is_right
from tests.chain_arithmetic.rounding import (
    SPECIALS,
    assert_correctly_rounded,
    draw_operands,
    expose,
    get_hardest,
    load_changed,
    surround,
)
from tests.chain_arithmetic.subjects import PLACES
from tests.quick import every, only, share
from tests.sweeps.oracle import round_exactly

FIRST_SUBNORMAL, FIRST_ZERO = 0x41131CE0, 0x4120DDFC
"""The operands from which on erfc is subnormal, and is 0."""

MOST_DRAWS = 200

each_volume = pytest.mark.parametrize(
    "count", [25, pytest.param(MOST_DRAWS, marks=pytest.mark.slow)]
)

FUNCTIONS = [function for function, (module, _) in PLACES.items() if module in FAMILIES]

each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)


@pytest.fixture(scope="module")
def contracts() -> Iterator[Mapping[str, Bytecode]]:
    """A contract for each family."""
    with ExitStack() as stack:
        yield {
            module: stack.enter_context(deployed("exposed", expose(module, get_functions(module))))
            for module in FAMILIES
        }


def assert_right(
    contracts: Mapping[str, Bytecode], function: Function, operands: Iterable[int]
) -> None:
    """Compare a function's results on the chain with MPFR's."""
    module, name = PLACES[function]
    assert_correctly_rounded(contracts[module], name, function, [(x,) for x in operands])


@pytest.mark.parametrize("stride", only({128}, [1, 128]))
@pytest.mark.parametrize("function", every(24, FUNCTIONS), ids=lambda function: function.name)
def test_hard_operands(contracts: Mapping[str, Bytecode], function: Function, stride: int) -> None:
    """Specials, edges and the hardest of all operands are rounded correctly."""
    edges = FAMILIES[PLACES[function][0]].edges
    hardest = get_hardest(function)
    assert_right(contracts, function, [*SPECIALS, *surround(edges), *hardest[::stride]])
    assert all(is_right(function, operand) for operand in hardest[::stride])


@each_volume
@each_function
def test_drawn_operands(contracts: Mapping[str, Bytecode], function: Function, count: int) -> None:
    """Operands of any kind are rounded correctly."""
    assert_right(contracts, function, draw_operands(function, count))


@pytest.mark.parametrize("parts", [25, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("function", "least"),
    [(Function.EXP, -103.98), (Function.EXP2, -150), (Function.SIGMOID, -104)],
)
def test_subnormal_results(
    contracts: Mapping[str, Bytecode], function: Function, least: float, parts: int
) -> None:
    """Results below the normal numbers are rounded once, at their own last place."""
    operands = [x for i in range(parts) for x in surround([least * (1 - i / parts / 6)])]
    assert_right(contracts, function, operands)


def test_subnormal_results_of_error_functions(contracts: Mapping[str, Bytecode]) -> None:
    """The bytecode rounds once where the last places of a small result do not exist."""
    rng = random.Random(6)
    assert round_exactly(Function.ERFC, FIRST_SUBNORMAL - 1) >= 1 << 23
    assert round_exactly(Function.ERFC, FIRST_SUBNORMAL) < 1 << 23
    assert round_exactly(Function.ERFC, FIRST_ZERO - 1) == 1
    assert round_exactly(Function.ERFC, FIRST_ZERO) == 0
    drawn = [rng.randrange(FIRST_SUBNORMAL, FIRST_ZERO) for _ in range(120)]
    ends = [each + by for each in (FIRST_SUBNORMAL, FIRST_ZERO) for by in range(-8, 8)]
    assert_right(contracts, Function.ERFC, [*drawn, *ends])
    tiny = [rng.randrange(1, 1 << rng.randrange(1, 24)) for _ in range(120)]
    assert_right(contracts, Function.ERF, tiny)


def test_powers_of_two(contracts: Mapping[str, Bytecode]) -> None:
    """Integers have exact powers of two, and the one half way between 0 and 2^-149 becomes 0."""
    integers = range(-151, 129)
    vectors = [(float32.encode(int(n < 0), abs(n), 0),) for n in integers]
    expected = [float32.encode(0, 1, n) for n in integers]
    assert expected[1] == 0 != expected[2]
    assert contracts["exponential"].run("exp2", vectors) == expected


def test_logarithms_of_powers_of_two(contracts: Mapping[str, Bytecode]) -> None:
    """The logarithm of a power of two, subnormal or not, to base 2 is its exponent, exactly."""
    exponents = range(-149, 128)
    vectors = [(float32.encode(0, 1, n),) for n in exponents]
    expected = [float32.encode(int(n < 0), abs(n), 0) for n in exponents]
    assert contracts["logarithm"].run("log2", vectors) == expected


@each_function
@settings(deadline=None)
@given(x=st.integers(0, (1 << 32) - 1))
def test_any_operand(function: Function, x: int) -> None:
    """Whatever the operand, the integer code rounds correctly."""
    assert is_right(function, x)


@pytest.mark.parametrize("count", only({share(25)}, [share(25), MOST_DRAWS]))
@each_function
def test_gas(contracts: Mapping[str, Bytecode], function: Function, count: int) -> None:
    """No call is dear: less than 4,000 or 8,000 gas, the call from outside included."""
    module, name = PLACES[function]
    family = FAMILIES[module]
    edges = surround(family.edges)[:: MOST_DRAWS // count]
    operands = [*SPECIALS, *edges, *draw_operands(1, count)]
    gas = contracts[module].measure(name, [(x,) for x in operands])
    assert mean(gas) < max(gas) < family.most_gas


@pytest.mark.parametrize(
    ("module", "old", "new"),
    every(
        8,
        [
            ("exponential", "LEVELS: constant(uint256) = 12", "LEVELS: constant(uint256) = 3"),
            ("exponential", "655_274\n", "655_274 >> 70 << 70\n"),
            ("logarithm", "LEVELS: constant(uint256) = 16", "LEVELS: constant(uint256) = 6"),
            ("logarithm", "431_860\n", "431_860 >> 94 << 94\n"),
        ],
    ),
    ids=["exponential-levels", "exponential-ln2", "logarithm-levels", "logarithm-ln2"],
)
def test_hard_operands_tell(tmp_path: Path, module: str, old: str, new: str) -> None:
    """With an error of 2^-54 some of the hardest operands come out wrong: they can tell."""
    changed, right = load_changed(module, old, new, tmp_path), load(module)
    assert [
        x
        for name, function in get_functions(module).items()
        for x in get_hardest(function)
        if getattr(changed, name)(x) != getattr(right, name)(x)
    ]
