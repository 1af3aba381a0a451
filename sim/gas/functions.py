"""The gas of the contract's scalar functions alone, as internal functions of its bytecode.

A contract that imports the function's module reads the gas that is left before and after each call.
What an assignment in the place of the call costs is taken off; what a first use of memory costs is
not in it, because one more call goes before.
"""

import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moot.contracts.compiler import SOURCE_DIR, Artifact, compile_contract, read_sources
from moot.offchain.arithmetic import float32
from moot.offchain.chain import Chain

VECTORS = 512
BATCH = 128
_SEED = 7

_WRAPPER = """# pragma version 0.4.3
import {module}


@external
@view
def measure(rows: DynArray[uint256[3], {batch}]) -> DynArray[uint256, {batch}]:
    costs: DynArray[uint256, {batch}] = []
    for row: uint256[3] in rows:
        x: uint256 = row[0]
        y: uint256 = row[1]
        z: uint256 = row[2]
        result: uint256 = 0
        before: uint256 = msg.gas
        result = {module}.{function}({operands})
        after: uint256 = msg.gas
        overhead: uint256 = msg.gas
        result = x
        overhead = overhead - msg.gas
        costs.append(before - after - overhead)
    return costs
"""
_IMPORT = re.compile(r"^import (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a scalar function is: in which module, under which name, with how many operands."""

    module: str
    function: str
    arity: int = 1


FUNCTIONS: Mapping[str, Place] = {
    "fma": Place("float32", "fma", 3),
    "add": Place("float32", "add", 2),
    "mul": Place("float32", "multiply", 2),
    "div": Place("float32", "divide", 2),
    "sqrt": Place("float32", "square_root"),
    "exp": Place("exponential", "exp"),
    "expm1": Place("exponential", "expm1"),
    "exp2": Place("exponential", "exp2"),
    "log": Place("logarithm", "ln"),
    "log1p": Place("logarithm", "log1p"),
    "log2": Place("logarithm", "log2"),
    "sin": Place("circular", "sin"),
    "cos": Place("circular", "cos"),
    "tan": Place("circular", "tan"),
    "tanh": Place("exponential", "tanh"),
    "sinh": Place("exponential", "sinh"),
    "cosh": Place("exponential", "cosh"),
    "erf": Place("error", "erf"),
    "erfc": Place("error", "erfc"),
    "rsqrt": Place("elementary", "reciprocal_square_root"),
    "sigmoid": Place("exponential", "sigmoid"),
    "pow": Place("power", "pow", 2),
}


def measure_function(chain: Chain, name: str) -> list[int]:
    """Return the gas of a function for each row of `draw_operands`."""
    place = FUNCTIONS[name]
    rows = list(draw_operands(place.arity, VECTORS))
    contract = chain.deploy(_compile(place), sender=chain.accounts[0])
    costs: list[int] = []
    for start in range(0, VECTORS, BATCH - 1):
        batch = rows[start : start + BATCH - 1]
        costs += contract.call("measure", [batch[0], *batch])[1:]
    return costs


def draw_operands(arity: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Draw rows of operands, half of them uniform, half of them structured, in turn.

    A uniform operand is any 32 bits. A structured one is, equally often, of moderate size,
    subnormal or small, special (zeros, ones, infinities, NaN), or of moderate size with a fraction
    that ends in zeros; and in every second structured row of three operands the last one nearly
    cancels the product of the others. Operands that a function does not have are 0.
    """
    rng = random.Random(_SEED)  # noqa: S311 - not a secret
    for number in range(count):
        is_uniform = number % 2 == 0
        draw = _draw_uniform if is_uniform else _draw_structured
        row = [draw(rng) if place < arity else 0 for place in range(3)]
        if arity == 3 and number % 4 == 1:
            row[2] = _cancel(rng, row)
        yield (row[0], row[1], row[2])


def _draw_uniform(rng: random.Random) -> int:
    return rng.getrandbits(32)


def _draw_structured(rng: random.Random) -> int:
    sign, fraction = rng.getrandbits(1) << 31, rng.getrandbits(23)
    match rng.randrange(4):
        case 0:
            return sign | rng.randrange(100, 155) << 23 | fraction
        case 1:
            return sign | rng.randrange(2) << 23 | fraction
        case 2:
            return sign | rng.choice((0, 0x3F800000, 0x7F800000, 0x7FC00000))
    return sign | rng.randrange(110, 145) << 23 | fraction >> 12 << 12


def _cancel(rng: random.Random, row: Sequence[int]) -> int:
    """Return a number within two last places of the product of two, with the other sign."""
    product = float32.fma(row[0], row[1], 0)
    return ((product ^ 1 << 31) + rng.randrange(-2, 3)) % (1 << 32)


def _compile(place: Place) -> Artifact:
    operands = ", ".join("xyz"[: place.arity])
    text = _WRAPPER.format(
        module=place.module, function=place.function, operands=operands, batch=BATCH
    )
    sources = read_sources(SOURCE_DIR)
    with tempfile.TemporaryDirectory() as folder:
        for name in _find_imports(text, sources):
            Path(folder, f"{name}.vy").write_text(sources[f"{name}.vy"], encoding="utf-8")
        Path(folder, "gauge.vy").write_text(text, encoding="utf-8")
        return compile_contract("gauge", Path(folder))


def _find_imports(text: str, sources: Mapping[str, str]) -> set[str]:
    """Return the modules that a text imports, and all that these import."""
    found: set[str] = set()
    waiting = _IMPORT.findall(text)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _IMPORT.findall(sources[f"{name}.vy"])
    return found
