"""Instructions of AVX-512 on vectors that fill one or more of its registers."""

import struct
from collections.abc import Callable, Sequence

from llvmlite import ir

from moot.offchain.native.machine import VECTOR_BITS, get_features
from moot.offchain.native.transcendental.lanes import Integers, Lanes
from moot.offchain.native.vectors import DOUBLE, FLOAT, INDEX, shuffle

_COUNT = 16
"""Floats in a register."""

_FLOATS = ir.VectorType(FLOAT, _COUNT)
_DOUBLES = ir.VectorType(DOUBLE, _COUNT // 2)
_MASK = ir.VectorType(ir.IntType(1), _COUNT)
_EVERYWHERE = ir.IntType(_COUNT)(-1)
_IN_THE_THREADS_ROUNDING = INDEX(4)
_SUBNORMAL = INDEX(0x20)

ARE_USED = VECTOR_BITS == 512 and {"+avx512f", "+avx512dq"} <= set(get_features().split(","))
"""Whether kernels may have these instructions."""


def fill(lanes: int) -> bool:
    """Whether vectors of so many lanes fill registers."""
    return lanes % _COUNT == 0


def look_up(table: Sequence[float], places: Integers) -> Lanes:
    """The numbers of a table that two registers hold, at places, whose lowest bits count.

    The table has 32 float32 numbers for places of 32 bits, and 16 float64 numbers for those of 64.
    """
    builder = places.builder
    is_single = places.value.type.element == INDEX
    kind, name = (_FLOATS, "vpermi2var.ps.512") if is_single else (_DOUBLES, "vpermi2var.pd.512")
    halves = table[: kind.count], table[kind.count :]
    low, high = (ir.Constant(kind, list(half)) for half in halves)

    def find(part: ir.Value) -> ir.Value:
        return _call(builder, name, kind, low, part, high)

    return Lanes(builder, _by_register(builder, find, kind.count, places.value))


def lessen(table: Sequence[float], places: int, *, is_single: bool) -> list[float]:
    """The numbers of a table, from whose bits their place, so many bits up, is subtracted.

    What is then looked up at the place that n has in its lowest bits, plus n so many bits up, has
    the upper bits of n in its exponent.
    """
    kind, whole = ("<f", "<i") if is_single else ("<d", "<q")
    found: list[float] = []
    for place, number in enumerate(table):
        (bits,) = struct.unpack(whole, struct.pack(kind, number))
        found += struct.unpack(kind, struct.pack(whole, bits - (place << places)))
    return found


def scale(x: Lanes, exponent: Lanes, is_meant: ir.Value) -> Lanes:
    """The product of x and 2^floor(exponent), rounded once, in the lanes of a mask, 0 in others.

    Only a lane that is meant takes the processor a hundred cycles if its product is below 2^-126.
    """
    builder = x.builder

    def find(part: ir.Value, power: ir.Value, meant: ir.Value) -> ir.Value:
        mask = builder.bitcast(meant, ir.IntType(_COUNT))
        name, zeros = "mask.scalef.ps.512", ir.Constant(_FLOATS, None)
        return _call(builder, name, _FLOATS, part, power, zeros, mask, _IN_THE_THREADS_ROUNDING)

    return Lanes(builder, _by_register(builder, find, _COUNT, x.value, exponent.value, is_meant))


def is_subnormal(x: Lanes) -> ir.Value:
    """The mask of the lanes that hold a subnormal number other than 0."""
    builder = x.builder

    def find(part: ir.Value) -> ir.Value:
        return _call(builder, "fpclass.ps.512", _MASK, part, _SUBNORMAL)

    return _by_register(builder, find, _COUNT, x.value)


def estimate_reciprocal(x: Lanes) -> Lanes:
    """1 / x to 2^-14 of it, which differs from one make of processor to another."""
    return _estimate("rcp14.ps.512", x)


def estimate_inverse_root(x: Lanes) -> Lanes:
    """1 / sqrt(x) to 2^-14 of it, which differs from one make of processor to another."""
    return _estimate("rsqrt14.ps.512", x)


def _estimate(name: str, x: Lanes) -> Lanes:
    builder = x.builder

    def find(part: ir.Value) -> ir.Value:
        return _call(builder, name, _FLOATS, part, part, _EVERYWHERE)

    return Lanes(builder, _by_register(builder, find, _COUNT, x.value))


def split(builder: ir.IRBuilder, whole: ir.Value, lanes: int = _COUNT) -> list[ir.Value]:
    """The parts of a vector that have so many lanes each."""
    return [
        shuffle(builder, whole, whole, list(range(first, first + lanes)))
        for first in range(0, whole.type.count, lanes)
    ]


def join(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """The vector of parts, as many as a power of two."""
    while len(parts) > 1:
        lanes = list(range(2 * parts[0].type.count))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffle(builder, a, b, lanes) for a, b in pairs]
    return parts[0]


def _by_register(
    builder: ir.IRBuilder, find: Callable[..., ir.Value], lanes: int, *operands: ir.Value
) -> ir.Value:
    """Apply an instruction to each register of vectors, of so many lanes."""
    parts = zip(*(split(builder, operand, lanes) for operand in operands), strict=True)
    return join(builder, [find(*part) for part in parts])


def _call(builder: ir.IRBuilder, name: str, kind: ir.Type, *operands: ir.Value) -> ir.Value:
    full, module = f"llvm.x86.avx512.{name}", builder.module
    signature = ir.FunctionType(kind, [operand.type for operand in operands])
    function = module.globals.get(full) or ir.Function(module, signature, full)
    return builder.call(function, operands)
