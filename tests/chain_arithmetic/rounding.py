"""Operands that are hard to round, and the comparison of a contract's results with MPFR's."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from moot.contracts.compiler import SOURCE_DIR
from moot.contracts.port import load
from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.functions import Function
from tests.chain_arithmetic.bytecode import Bytecode
from tests.sweeps.oracle import round_exactly

SIGN = float32.SIGN
SPECIALS = [
    sign | size
    for sign in (0, SIGN)
    for size in (
        *(0, 1, 2, 3, 0x007FFFFF, 0x00800000, 0x00800001, 0x33000000, 0x33800000, 0x3EFFFFFF),
        *(0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x40000000, 0x40400000, 0x4B7FFFFF),
        *(0x4B800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF),
    )
]
"""Zeros, the least and largest numbers, 1 and its neighbours, integers, infinities and NaN."""

_RECORDS = Path(__file__).parents[1] / "sweeps" / "results.json"


def expose(module: str, functions: Iterable[str], parameters: Sequence[str] = ("x",)) -> str:
    """Return a contract whose external functions are internal ones of a module."""
    declared = ", ".join(f"{each}: uint256" for each in parameters)
    given = ", ".join(parameters)
    parts = [f"# pragma version 0.4.3\nimport {module}\n"]
    parts += [
        f"@external\n@pure\ndef {name}({declared}) -> uint256:\n"
        f"    return {module}.{name}({given})\n"
        for name in functions
    ]
    return "\n".join(parts)


def load_changed(module: str, old: str, new: str, folder: Path) -> SimpleNamespace:
    """Return the port of a module whose text has been changed in one place."""
    for source in SOURCE_DIR.glob("*.vy"):
        text = source.read_text()
        if source.stem == module:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (folder / source.name).write_text(text)
    return load(module, folder)


def get_hardest(function: Function) -> list[int]:
    """Return the operands whose values are nearest to half-way points, of all 2^32."""
    record = json.loads(_RECORDS.read_text())[function.name.lower()]
    return [operand for _, operand in record["findings"]["hard"]]


def surround(values: Iterable[float]) -> list[int]:
    """Return the patterns of numbers and of their neighbours up to three away, in both signs."""
    patterns = [int(np.float32(value).view(np.uint32)) for value in values]
    near = [max(each + by, 0) for each in patterns for by in range(-3, 4)]
    return near + [SIGN | each for each in near]


def draw_operands(seed: int, count: int) -> list[int]:
    """Return any patterns, numbers of moderate size, and short significands of any size."""
    rng = random.Random(seed)
    operands = []
    for _ in range(count):
        sign = rng.getrandbits(1) << 31
        short = rng.choice((0, 1, 0x7FFFFF, 1 << rng.randrange(23), rng.getrandbits(23)))
        operands.append(rng.getrandbits(32))
        operands.append(sign | rng.randrange(100 << 23, 135 << 23))
        operands.append(sign | rng.randrange(255) << 23 | short)
    return operands


def assert_correctly_rounded(
    contract: Bytecode, name: str, function: Function, vectors: Sequence[Sequence[int]]
) -> None:
    """Compare results of the bytecode with MPFR's."""
    results = contract.run(name, vectors)
    wrong = [
        (list(map(hex, vector)), result)
        for vector, result in zip(vectors, results, strict=True)
        if result != round_exactly(function, *vector)
    ]
    assert wrong == []
