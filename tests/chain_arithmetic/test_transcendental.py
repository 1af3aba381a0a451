"""The contract of the transcendental functions: bytecode, port and MPFR agree on every bit."""

from collections.abc import Iterator

import numpy as np
import pytest

from moot.contracts.port import load
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.errors import Reverted
from tests.chain_arithmetic.bytecode import Bytecode, deployed
from tests.chain_arithmetic.operands import draw_operands, get_known_operands
from tests.chain_arithmetic.rounding import SPECIALS, get_hardest
from tests.quick import every, only, share
from tests.sweeps.oracle import round_exactly

FUNCTIONS = [function for function in Function if function.is_transcendental]
NUMBERS = {function.value for function in FUNCTIONS}
CODE_LIMIT = 24_576
MOST_GAS = 15_000
MEAN_GAS = 10_000

each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.name)
some_functions = pytest.mark.parametrize(
    "function", every(6, FUNCTIONS), ids=lambda each: each.name
)


@pytest.fixture(scope="module")
def contract() -> Iterator[Bytecode]:
    """The contract on a chain."""
    with deployed("transcendental") as found:
        yield found


def make_vectors(function: Function, count: int) -> list[tuple[int, int, int]]:
    """Return calls with a sample of the known operands, and as many drawn ones."""
    rng = np.random.default_rng(function)
    known = get_known_operands(function)
    sample = known[rng.permutation(len(known))[:count]]
    rows = np.concatenate([sample, draw_operands(function, rng, count)]).tolist()
    return [(function, x, y[0] if y else 0) for x, *y in rows]


def assert_all_agree(contract: Bytecode, vectors: list[tuple[int, int, int]]) -> None:
    """Compare bytecode, port and MPFR."""
    results = contract.run("evaluate", vectors)
    assert results == [load("transcendental").evaluate(*vector) for vector in vectors]
    assert results == [_round(*vector) for vector in vectors]


def _round(function: int, x: int, y: int) -> int:
    operands = (x, y) if function == Function.POW else (x,)
    return round_exactly(Function(function), *operands)


@pytest.mark.parametrize("count", only({20}, [20, 120]))
@some_functions
def test_bytecode_is_port_is_oracle(contract: Bytecode, function: Function, count: int) -> None:
    """The three agree on a hundred operands and more, structured and drawn."""
    assert_all_agree(contract, make_vectors(function, count))


@pytest.mark.slow
@each_function
def test_bytecode_is_port_is_oracle_on_many(contract: Bytecode, function: Function) -> None:
    """The three agree on 10,000 operands, structured and drawn."""
    assert_all_agree(contract, make_vectors(function, 5_000))


@some_functions
def test_specials_and_hardest_operands(contract: Bytecode, function: Function) -> None:
    """The three agree on zeros, infinities, NaN and extremes, and on the hardest known operands."""
    hardest = [] if function is Function.POW else get_hardest(function)
    vectors = [(function.value, x, 0x40200000) for x in (*SPECIALS, *hardest)]
    assert_all_agree(contract, vectors)


@each_function
def test_the_specification_agrees(contract: Bytecode, function: Function) -> None:
    """The contract's results are those of the readable definition."""
    vectors = make_vectors(function, 20)
    arity = 2 if function is Function.POW else 1
    types = (DType.FLOAT32,) * arity
    expected = [evaluate(function, types, DType.FLOAT32, (x, y)[:arity]) for _, x, y in vectors]
    assert contract.run("evaluate", vectors) == expected


def test_only_its_functions_are_known(contract: Bytecode) -> None:
    """Of all numbers, those of the transcendental functions have a result, others revert."""
    tried = [*range(300), 1 << 64, (1 << 256) - 1]
    results = contract.run("evaluate", [(number, 0x3F800000, 0x3F800000) for number in tried])
    known = {number for number, result in zip(tried, results, strict=True) if result is not None}
    assert known == NUMBERS
    with pytest.raises(Reverted, match="transcendental: unknown function"):
        contract.target.call("evaluate", 63, 0, 0)


@pytest.mark.parametrize("operands", [(1 << 32, 0), (0, 1 << 32), ((1 << 256) - 1, 0)])
def test_operands_are_patterns(contract: Bytecode, operands: tuple[int, int]) -> None:
    """An operand of more than 32 bits is refused, and the largest pattern is not."""
    largest = (1 << 32) - 1
    assert contract.run("evaluate", [(Function.POW, largest, largest)]) == [0x7FC00000]
    with pytest.raises(Reverted, match="transcendental: not a binary32 number"):
        contract.target.call("evaluate", Function.POW, *operands)


@each_function
def test_gas(contract: Bytecode, function: Function) -> None:
    """No result costs more than 15,000 gas, and the mean is below 10,000."""
    gas = contract.measure("evaluate", make_vectors(function, share(60)))
    assert max(gas) < MOST_GAS
    assert sum(gas) < MEAN_GAS * len(gas)


def test_the_code_fits(contract: Bytecode) -> None:
    """The contract is smaller than the chain's limit for code."""
    assert 0 < contract.code_size < CODE_LIMIT
