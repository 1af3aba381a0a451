"""The scalar vectors by a second implementation: MPFR and exact rationals, from the JSON alone.

Nothing of ours is imported. This is what somebody else would write from
docs/reference/conformance.md.
"""

import json
import math
import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import gmpy2
import pytest

FILE = Path(__file__).parent / "ordered-1" / "scalars.json"
CASES = {
    f"{case['function']} {case['operands']} {case['result']}": case
    for case in json.loads(FILE.read_text())["cases"]
}

NAN = 0x7FC00000
SIGN = 0x80000000
WIDTHS = {"int64": 64, "int32": 32, "int8": 8, "bool": 1}
NANS = {"float32": NAN, "bfloat16": NAN >> 16}

BFLOAT16 = gmpy2.context(precision=8, emin=-132, emax=128, subnormalize=True)
BINARY32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)
WIDE = gmpy2.context(precision=400, emin=-(10**6), emax=10**6)

Scalar = Callable[..., int]
"""Bit patterns to a bit pattern."""


def number(bits: int) -> float:
    """Return the number that a pattern of binary32 means."""
    value: float = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    return value


def pattern(value: Any) -> int:
    """Return the pattern of a number that is a binary32."""
    if gmpy2.is_nan(value):
        return NAN
    return int.from_bytes(struct.pack("<f", float(value)), "little")


def rounded(function: Callable[..., Any]) -> Scalar:
    """Compute a real function and round once."""

    def compute(*operands: int) -> int:
        with gmpy2.context(BINARY32):
            return pattern(function(*(gmpy2.mpfr(number(bits)) for bits in operands)))

    return compute


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e^-x), from 400 bits."""
    with gmpy2.context(WIDE):
        wide = 1 / (1 + gmpy2.exp(-x))
    return gmpy2.mpfr(wide)


def extreme(choose: Callable[..., int]) -> Scalar:
    """Return the larger or the smaller operand; patterns as sign and magnitude order the zeros."""

    def compute(*operands: int) -> int:
        if any(math.isnan(number(bits)) for bits in operands):
            return NAN
        return choose(
            operands, key=lambda bits: (bits ^ SIGN) + 1 if bits < SIGN else 2 * SIGN - bits
        )

    return compute


def integral(round_rational: Callable[[Fraction], int]) -> Scalar:
    """Round a number to an integer, which keeps the number's sign."""

    def compute(bits: int) -> int:
        value = number(bits)
        if not math.isfinite(value):
            return pattern(value)
        return pattern(math.copysign(abs(round_rational(Fraction(value))), value))

    return compute


def comparison(relation: Callable[[Any, Any], bool]) -> Scalar:
    """Compare two numbers."""
    return lambda a, b: int(relation(number(a), number(b)))


RELATIONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}

FLOAT: dict[str, Scalar] = {
    "add": rounded(operator.add),
    "sub": rounded(operator.sub),
    "mul": rounded(operator.mul),
    "div": rounded(gmpy2.div),
    "fma": rounded(gmpy2.fma),
    "sqrt": rounded(gmpy2.sqrt),
    "rsqrt": rounded(lambda x: gmpy2.rec_sqrt(x) if x else 1 / x),
    "neg": rounded(operator.neg),
    "abs": rounded(abs),
    "max": extreme(max),
    "min": extreme(min),
    "floor": integral(math.floor),
    "ceil": integral(math.ceil),
    "trunc": integral(math.trunc),
    "round": integral(round),
    "sigmoid": rounded(sigmoid),
    "pow": rounded(operator.pow),
    **{name: comparison(relation) for name, relation in RELATIONS.items()},
}
FLOAT |= {
    name: rounded(getattr(gmpy2, name))
    for name in ("exp", "expm1", "exp2", "log", "log1p", "log2", "erf", "erfc")
}
FLOAT |= {
    name: rounded(getattr(gmpy2, name)) for name in ("sin", "cos", "tan", "tanh", "sinh", "cosh")
}

INTEGER: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": abs,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.invert,
    "floor_divide": lambda a, b: a // b if b else 0,
    "remainder": lambda a, b: a % b if b else 0,
    **RELATIONS,
}
"""Functions of integers, before they are wrapped; those of flags are the same on one bit."""


def signed(bits: int, width: int) -> int:
    """Return the integer that a two's complement pattern means; a flag is 0 or 1."""
    return bits - (1 << width) if width > 1 and bits >> width - 1 else bits


def canonical(bits: int, kind: str) -> int:
    """Return the pattern of a value: there is one NaN."""
    if kind in NANS and math.isnan(number(widen(kind, bits))):
        return NANS[kind]
    return bits


def widen(kind: str, bits: int) -> int:
    """Return the binary32 pattern of a number of either type."""
    return bits << 16 if kind == "bfloat16" else bits


def convert(source: str, target: str, bits: int) -> int:
    """Convert a value: truncate and saturate floats, round integers, wrap wider ones."""
    if source == target:
        return bits
    if source == "bfloat16":
        return convert("float32", target, widen(source, bits))
    if target == "bfloat16":
        with gmpy2.context(BFLOAT16):
            rounded_once = pattern(gmpy2.mpfr(number(convert(source, "float32", bits))))
        return rounded_once >> 16
    value = number(bits) if source == "float32" else signed(bits, WIDTHS[source])
    if target == "bool":
        return int(value != 0)
    if target == "float32":
        with gmpy2.context(BINARY32):
            return pattern(gmpy2.mpfr(gmpy2.mpz(value)))
    if isinstance(value, float):
        limit = 1 << WIDTHS[target] - 1
        nearest = 0.0 if math.isnan(value) else min(max(value, -2.0 * limit), 2.0 * limit)
        value = min(max(math.trunc(nearest), -limit), limit - 1)
    return value % (1 << WIDTHS[target])


def uniform(seed: int, step: int, stream: int, element: int) -> int:
    """Return Philox4x32-10's uniform number, from the paper."""
    low = 0xFFFFFFFF
    c = [element >> 2 & low, element >> 34, step, stream]
    for index in range(10):
        keys = (seed + index * 0x9E3779B9) & low, ((seed >> 32) + index * 0xBB67AE85) & low
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ keys[0], q & low, p >> 32 ^ c[3] ^ keys[1], p & low]
    return pattern((c[element & 3] >> 8) / 2**24)


def compute(case: dict[str, Any], operands: list[int]) -> int:
    """Return the result of one row."""
    name, types, result = case["function"], case["operands"], case["result"]
    if name == "uniform":
        return uniform(*operands)
    values = [canonical(bits, kind) for bits, kind in zip(operands, types, strict=True)]
    if name == "copy":
        return values[0]
    if name == "where":
        return values[1] if values[0] else values[2]
    if name == "convert":
        return convert(types[0], result, values[0])
    if types[0] in NANS:
        return FLOAT[name](*(widen(types[0], value) for value in values))
    width = WIDTHS[types[0]]
    found = INTEGER[name](*(signed(bits, width) for bits in values))
    return int(found) % (1 << WIDTHS[result])


@pytest.mark.parametrize("name", CASES)
def test_every_row(name: str) -> None:
    """MPFR, exact rationals and Python's integers come to every result of a scalar function."""
    case = CASES[name]
    for row in case["rows"]:
        *operands, result = (int(word, 16) for word in row.split())
        assert compute(case, operands) == result, row


def test_every_function_is_there() -> None:
    """The vectors cover all functions but the two that are folds: 48 of them, numbered apart."""
    numbers = {case["function"]: case["number"] for case in CASES.values()}
    assert len(numbers) == len(set(numbers.values()))
    assert set(numbers) == {*FLOAT, *INTEGER, "copy", "where", "convert", "uniform"}
