"""An independent oracle for scalar functions: exact rationals and MPFR, none of our arithmetic."""

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction

import gmpy2
import numpy as np

NAN = 0x7FC00000

_CONTEXT = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)
"""binary32 to MPFR."""

_HALF = gmpy2.context(precision=8, emin=-132, emax=128, subnormalize=True)
"""bfloat16 to MPFR."""


def to_float(bits: int) -> float:
    """Return the number that a binary32 pattern stands for."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]  # type: ignore[no-any-return] # a float


def to_bits(value: "gmpy2.mpfr | float") -> int:
    """Return the binary32 pattern of a number that is exactly a binary32."""
    if gmpy2.is_nan(value):
        return NAN
    return struct.unpack("<I", struct.pack("<f", float(value)))[0]  # type: ignore[no-any-return] # an int


def _rounded(function: Callable[..., "gmpy2.mpfr"]) -> Callable[..., int]:
    def compute(*operands: int) -> int:
        with _CONTEXT:
            return to_bits(function(*(gmpy2.mpfr(to_float(bits)) for bits in operands)))

    return compute


def _extreme(*, largest: bool) -> Callable[[int, int], int]:
    def compute(a: int, b: int) -> int:
        x, y = to_float(a), to_float(b)
        if math.isnan(x) or math.isnan(y):
            return NAN
        if x == y:
            return (a & b) if largest else (a | b)
        return a if (x > y) == largest else b

    return compute


def _compare(operation: Callable[[float, float], bool]) -> Callable[[int, int], int]:
    return lambda a, b: int(operation(to_float(a), to_float(b)))


FLOAT: dict[str, Callable[..., int]] = {
    "add": _rounded(lambda a, b: a + b),
    "sub": _rounded(lambda a, b: a - b),
    "mul": _rounded(lambda a, b: a * b),
    "div": _rounded(gmpy2.div),
    "fma": _rounded(gmpy2.fma),
    "sqrt": _rounded(gmpy2.sqrt),
    "rsqrt": _rounded(lambda a: gmpy2.rec_sqrt(a) if a else 1 / a),
    "exp": _rounded(gmpy2.exp),
    "log": _rounded(gmpy2.log),
    "tanh": _rounded(gmpy2.tanh),
    "erf": _rounded(gmpy2.erf),
    "sin": _rounded(gmpy2.sin),
    "cos": _rounded(gmpy2.cos),
    "max": _extreme(largest=True),
    "min": _extreme(largest=False),
    "neg": _rounded(lambda a: -a),
    "abs": _rounded(abs),
    "eq": _compare(lambda x, y: x == y),
    "ne": _compare(lambda x, y: x != y),
    "lt": _compare(lambda x, y: x < y),
    "le": _compare(lambda x, y: x <= y),
    "gt": _compare(lambda x, y: x > y),
    "ge": _compare(lambda x, y: x >= y),
}
"""Functions of binary32 operands."""


def _sigmoid(bits: int) -> int:
    x = to_float(bits)
    if math.isnan(x):
        return NAN
    with gmpy2.context(precision=400, emin=-(10**6), emax=10**6):
        value = 1 / (1 + gmpy2.exp(-gmpy2.mpfr(x)))
    with _CONTEXT:
        return to_bits(gmpy2.mpfr(value))


FLOAT["sigmoid"] = _sigmoid


def round_fraction(value: Fraction) -> int:
    """Return the binary32 pattern nearest to a rational, ties to even."""
    with _CONTEXT:
        return to_bits(gmpy2.mpfr(gmpy2.mpq(value.numerator, value.denominator)))


def signed(bits: int, width: int) -> int:
    """Return the integer that a two's complement pattern of `width` bytes means."""
    return bits - (1 << 8 * width) if bits >> (8 * width - 1) else bits


INTEGER: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
    "neg": lambda a: -a,
    "abs": abs,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
"""Functions of integer or boolean operands, before they are wrapped."""


def compute(function: str, types: Sequence[str], result_type: str, operands: Sequence[int]) -> int:
    """Return the right bits of a scalar operation whose operand types are named."""
    widths = {"float32": 4, "int64": 8, "int32": 4, "bool": 1}
    if function == "convert" and "bfloat16" in (types[0], result_type):
        return _convert_half(types[0], result_type, operands[0])
    if function == "where":
        condition, a, b = operands
        return a if condition else b
    if function == "convert":
        return _convert(types[0], result_type, operands[0])
    if types and types[0] == "float32":
        return FLOAT[function](*operands)
    if function == "not":
        (bits,) = operands
        return bits ^ (1 if types[0] == "bool" else (1 << 8 * widths[types[0]]) - 1)
    values = [
        bits if kind == "bool" else signed(bits, widths[kind])
        for bits, kind in zip(operands, types, strict=True)
    ]
    return int(INTEGER[function](*values)) % (1 << 8 * widths[result_type])


def _convert_half(source: str, target: str, bits: int) -> int:
    """Return a conversion from or to bfloat16, binary32 of 8 bits of precision."""
    wide = bits << 16 if source == "bfloat16" else _convert(source, "float32", bits)
    if target != "bfloat16":
        return _convert("float32", target, wide)
    with _HALF:
        return to_bits(gmpy2.mpfr(to_float(wide))) >> 16


def _convert(source: str, target: str, bits: int) -> int:  # noqa: PLR0911 - a case a line
    widths = {"int64": 8, "int32": 4}
    if source == target:
        return bits if source != "float32" or not math.isnan(to_float(bits)) else NAN
    if source == "float32":
        x = to_float(bits)
        if target == "bool":
            return int(x != 0)
        limit = 1 << (8 * widths[target] - 1)
        if math.isnan(x):
            return 0
        value = int(min(max(Fraction(x), -limit), limit - 1)) if math.isfinite(x) else None
        if value is None:
            value = limit - 1 if x > 0 else -limit
        return value % (2 * limit)
    value = bits if source == "bool" else signed(bits, widths[source])
    if target == "float32":
        return round_fraction(Fraction(value))
    if target == "bool":
        return int(value != 0)
    return value % (1 << 8 * widths[target])


def philox_uniform(seed: int, step: int, stream: int, element: int) -> int:
    """Return Philox4x32-10's uniform number, written with numpy's wrapping integers."""
    with np.errstate(over="ignore"):
        counter = np.array([element >> 2 & 0xFFFFFFFF, element >> 34, step, stream], np.uint64)
        key = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint64)
        low = np.uint64(0xFFFFFFFF)
        for _ in range(10):
            first = np.uint64(0xD2511F53) * counter[0]
            second = np.uint64(0xCD9E8D57) * counter[2]
            counter = np.array(
                [
                    (second >> np.uint64(32)) ^ counter[1] ^ key[0],
                    second & low,
                    (first >> np.uint64(32)) ^ counter[3] ^ key[1],
                    first & low,
                ],
                np.uint64,
            )
            key = (key + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & low
    word = int(counter[element & 3])
    return int(np.float32((word >> 8) * 2.0**-24).view(np.uint32))
