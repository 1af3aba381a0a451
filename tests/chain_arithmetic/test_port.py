"""The port of Vyper to Python against Vyper's bytecode, construct by construct."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moot.contracts.compiler import SOURCE_DIR
from moot.contracts.port import load
from moot.offchain.errors import CompileError, Reverted
from tests.chain_arithmetic.bytecode import Bytecode, deployed
from tests.quick import every

EDGES = [
    *(0, 1, 2, 3, 5, 31, 255, 256, 257, (1 << 128) - 1, 1 << 128, (1 << 255) - 1),
    *(1 << 255, (1 << 255) + 1, (1 << 256) - 2, (1 << 256) - 1),
]
WORD = 1 << 256

BINARY = {
    "uint256": [
        *("x + y", "x - y", "x * y", "x // y", "x % y", "x & y", "x | y", "x ^ y"),
        *(
            "x << y",
            "x >> y",
            "~x",
            "isqrt(x)",
            "min(x, y)",
            "max(x, y)",
            "uint256_mulmod(x, x, y)",
        ),
        *("unsafe_add(x, y)", "unsafe_sub(x, y)", "unsafe_mul(x, y)", "unsafe_div(x, y)"),
        *("convert(x < y, uint256)", "convert(x >= y or x == 3, uint256)"),
        *("x if x > y and not y == 2 else y", "convert(convert(x, bool), uint256)", "x * 3 - 7"),
        *("convert(x <= y and x != 1, uint256)", "TABLE[x]", "TABLE[x] + WORDS * y", "x << 7 >> 3"),
        *("convert(convert(x, int256), uint256)", "max_value(uint256) - x"),
    ],
    "int256": [
        *("x + y", "x - y", "x * y", "x // y", "x % y", "x & y", "x | y", "x ^ y", "-x"),
        *("unsafe_add(x, y)", "unsafe_sub(x, y)", "unsafe_mul(x, y)", "unsafe_div(x, y)"),
        *("min(x, y)", "max(x, y)", "abs(x)", "x if x < y else -y", "x * 3 - 7"),
        *("x << convert(y, uint256)", "x >> convert(y, uint256)", "convert(x < y, int256)"),
        *("SIGNED[abs(x) % 3] - y", "-7 // x", "-7 % x", "x >> 200"),
    ],
}
"""Expressions of x and y of one type, with a result of that type."""

HEAD = """
# pragma version 0.4.3
import float32
import exponential as other

WORDS: constant(uint256) = 3
TABLE: constant(uint256[4]) = [1, WORDS + 4, 1 << 255, max_value(uint256)]
SIGNED: constant(int256[3]) = [-1, 2, min_value(int256)]
"""
STATEMENTS = """
@internal
@pure
def _swap(values: uint256[3]) -> (uint256, uint256[3]):
    own: uint256[3] = values
    own[0] = values[2]
    own[2] = values[0]
    return own[1], own

@external
@pure
def arrays(x: uint256, y: uint256) -> uint256:
    values: uint256[3] = [x & 255, y & 255, 3]
    before: uint256[3] = values
    middle: uint256 = 0
    swapped: uint256[3] = [0, 0, 0]
    middle, swapped = self._swap(values)
    values[x & 3] += 1
    values[1] = values[0] - before[0]
    total: uint256 = middle
    for value: uint256 in values:
        total = total * 7 + value
    for value: uint256 in swapped:
        total = total * 7 + value
    for value: uint256 in [WORDS, 4]:
        total = total * 7 + value
    return total

@external
@pure
def loops(x: uint256, y: uint256) -> uint256:
    total: uint256 = 0
    for i: uint256 in range(x, y, bound=300):
        if i % 3 == 0:
            continue
        elif i % 50 == 49:
            break
        else:
            total = unsafe_add(unsafe_mul(total, 3), i)
    for i: uint256 in range(x & 15, bound=9):
        total ^= i
    for i: uint256 in range(3, 7):
        total ^= i << 3
    for i: int256 in range(-2, 2):
        total ^= convert(i * i, uint256)
    for i: uint256 in range(WORDS):
        pass
    return total

@external
@pure
def asserts(x: uint256, y: uint256) -> uint256:
    assert x != 3, "three"
    assert y != 5
    if x == 2:
        raise "two"
    x_: uint256 = x
    x_ ^= y
    x_ >>= 3
    x_ -= 1
    return x_

@external
@pure
def names(x: uint256, y: uint256) -> uint256:
    place: uint256 = x
    list: uint256 = y
    count: uint256 = place ^ list
    values: uint256[2] = [count, count]
    others: uint256[2] = values
    return others[1]

@external
@pure
def imports(x: uint256, y: uint256) -> uint256:
    significand: uint256 = 0
    exponent: uint256 = 0
    significand, exponent = float32.decode(x & (float32.SIGN - 1))
    return other.exp(x & 4_294_967_295) ^ significand ^ (exponent << 32)
"""
FUNCTIONS = ["arrays", "loops", "asserts", "names", "imports"]


def write_module() -> tuple[str, list[tuple[str, str]]]:
    """Return a module with a function for each expression, and their names and types."""
    functions, parts = [(name, "uint256") for name in FUNCTIONS], [HEAD, STATEMENTS]
    for kind, expressions in BINARY.items():
        for place, expression in enumerate(expressions):
            name = f"{kind}_{place}"
            parts.append(f"@external\n@pure\ndef {name}(x: {kind}, y: {kind}) -> {kind}:\n")
            parts.append(f"    return {expression}\n\n")
            functions.append((name, kind))
    return "".join(parts), functions


TEXT, TYPED = write_module()


@pytest.fixture(scope="module")
def bytecode() -> Iterator[Bytecode]:
    """The module on a chain."""
    with deployed("everything", TEXT) as contract:
        yield contract


def load_text(folder: Path, text: str) -> SimpleNamespace:
    """Load a module from its text, beside the chain's sources."""
    (folder / "tried.vy").write_text(text)
    for imported in ("float32", "exponential"):
        source = SOURCE_DIR / f"{imported}.vy"
        (folder / source.name).write_text(source.read_text())
    return load("tried", folder)


@pytest.fixture(scope="module")
def ported(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The module in Python."""
    return load_text(tmp_path_factory.mktemp("source"), TEXT)


def run_port(function: Any, vector: Sequence[int]) -> int | None:
    """Return the result modulo 2^256, or None if the function reverts."""
    try:
        return int(function(*vector)) % WORD
    except Reverted:
        return None


def draw(kind: str) -> list[tuple[int, int]]:
    """Return all pairs of edges, small pairs, and pairs of random sizes, in the type's range."""
    rng = random.Random(5)
    pairs = [(x, y) for x in EDGES for y in EDGES]
    pairs += [(rng.randrange(60), rng.randrange(60)) for _ in range(20)]
    pairs += [(rng.getrandbits(rng.randrange(257)), rng.getrandbits(200)) for _ in range(60)]
    if kind == "uint256":
        return pairs
    return [(_as_signed(x), _as_signed(y)) for x, y in pairs]


def _as_signed(value: int) -> int:
    return value - WORD if value >> 255 else value


@pytest.mark.parametrize(("name", "kind"), every(40, TYPED))
def test_port_is_bytecode(
    bytecode: Bytecode, ported: SimpleNamespace, name: str, kind: str
) -> None:
    """Every expression and statement has the bytecode's result, and reverts where it reverts."""
    vectors = draw(kind)
    expected = bytecode.run(name, vectors)
    assert [run_port(getattr(ported, name), vector) for vector in vectors] == expected
    assert any(result is not None for result in expected)


def test_reasons(ported: SimpleNamespace) -> None:
    """A revert carries the reason that the contract gives."""
    with pytest.raises(Reverted, match="three"):
        ported.asserts(3, 0)
    with pytest.raises(Reverted, match="two"):
        ported.asserts(2, 0)


REFUSED = {
    "state": "total: uint256\n",
    "immutables": "TOTAL: immutable(uint256)\n\n@deploy\ndef __init__():\n    TOTAL = 1\n",
    "structs": "struct Pair:\n    x: uint256\n",
    "impure": "@external\n@view\ndef f() -> uint256:\n    return block.number\n",
    "narrow": "@external\n@pure\ndef f(x: uint8) -> uint8:\n    return x + 1\n",
    "local": "@external\n@pure\ndef f():\n    x: uint128 = 1\n",
    "bytes": "@external\n@pure\ndef f(x: uint256) -> bytes32:\n    return keccak256(b'')\n",
    "power": "@external\n@pure\ndef f(x: uint256) -> uint256:\n    return x ** 2\n",
    "membership": "@external\n@pure\ndef f(x: uint256) -> bool:\n    return x in [1, 2]\n",
    "defaults": "@external\n@pure\ndef f(x: uint256 = 1) -> uint256:\n    return x\n",
    "nested": "@external\n@pure\ndef f(x: uint256[2][2]) -> uint256:\n    return x[0][1]\n",
    "lists": "@external\n@pure\ndef f(x: DynArray[uint256, 2]) -> uint256:\n    return x[0]\n",
    "builtin": "@external\n@pure\ndef f(x: uint256) -> uint256:\n    return pow_mod256(x, x)\n",
    "targets": "@internal\n@pure\ndef g() -> (uint256, uint256):\n    return 3, 4\n\n"
    "@external\n@pure\ndef f(x: uint256[2]) -> uint256:\n    y: uint256[2] = x\n"
    "    y[0], y[1] = self.g()\n    return y[0]\n",
    "unreachable": "@external\n@pure\ndef f(x: uint256):\n    assert x != 1, UNREACHABLE\n",
}


@pytest.mark.parametrize("construct", REFUSED)
def test_unknown_constructs_are_refused(tmp_path: Path, construct: str) -> None:
    """What the port does not know is an error with its place, never a guess."""
    text = f"# pragma version 0.4.3\n{REFUSED[construct]}"
    with pytest.raises(CompileError, match=r"tried\.vy:\d+: the port does not know"):
        load_text(tmp_path, text)
