"""Transcendental functions of whole arrays, correctly rounded to float32.

Functions of one operand are what `transcendental.emit` makes of vectors, and nothing else: that has
been compared with the exact values of all operands. Powers have too many operands for that. They
are rounded from both ends of an error band around what float64 says; where these differ, for about
one element in a million, the definition, `moot.offchain.arithmetic`, decides.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.native import buffers, vectors
from moot.offchain.native.compiled import Kernel, emitted, kernel, reads, writes
from moot.offchain.native.threads import share
from moot.offchain.native.transcendental.functions import emit
from moot.offchain.native.transcendental.power import emit_power
from moot.offchain.native.vectors import BYTE, FLOAT, LANES, NAN, WORD

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

_GRAIN = 2**15
_FLOAT_BYTES = 4
_VECTOR = ir.VectorType(FLOAT, LANES)


def apply(function: Function, x: Floats, y: Floats | None = None) -> Floats:
    """Apply a transcendental function to every element.

    Args:
        function: one of those for which `is_transcendental` holds.
        x: operands, float32, contiguous, of any shape.
        y: second operands, shaped like `x`, or one for all, for POW only.

    Returns:
        float32 results, shaped like `x`.
    """
    results = buffers.empty(x.shape, np.float32)
    write(function, results, x, y)
    return results


def write(function: Function, results: Floats, x: Floats, y: Floats | None = None) -> None:
    """Apply a transcendental function as `apply` does, into a contiguous array of its shape."""
    first = _at_least_a_vector(x)
    flat = results.reshape(-1) if first.size == x.size else np.empty(first.size, np.float32)
    if y is None:
        compute = _unary(function)
        share(lambda *range_: compute(first, flat, *range_), first.size, _GRAIN)
    else:
        _raise(first, y.reshape(-1), flat)
    if first.size != x.size:
        results[...] = flat[: x.size].reshape(x.shape)


def _at_least_a_vector(operand: Floats) -> Floats:
    flat = operand.reshape(-1)
    return flat if flat.size >= LANES else np.pad(flat, (0, LANES - flat.size))


def _raise(x: Floats, y: Floats, results: Floats) -> None:
    doubtful, is_same = buffers.empty((x.size,), np.bool_), y.size == 1
    exponents = np.full(LANES, y[0]) if is_same else _at_least_a_vector(y)
    step = 0 if is_same else _FLOAT_BYTES
    share(lambda *range_: _power(x, exponents, step, results, doubtful, *range_), x.size, _GRAIN)
    places = np.flatnonzero(doubtful)
    if places.size:
        chosen = np.broadcast_to(y, x.shape) if is_same else exponents
        results[places] = _define(Function.POW, [x[places], chosen[places]])


def _define(function: Function, operands: Sequence[Floats]) -> Floats:
    """The results of 1-D operands by definition, which is asked once for each combination."""
    operand_types = [DType.FLOAT32] * len(operands)
    elements = list(zip(*(operand.view(np.uint32).tolist() for operand in operands), strict=True))
    defined = {
        element: evaluate(function, operand_types, DType.FLOAT32, element)
        for element in dict.fromkeys(elements)
    }
    return np.array([defined[element] for element in elements], np.uint32).view(np.float32)


def _transform(
    builder: ir.IRBuilder,
    first: ir.Value,
    stop: ir.Value,
    transform: Callable[[ir.Value], None],
) -> None:
    """Run `transform` on the places of vectors that cover a range; the last two may overlap."""
    count = builder.sdiv(builder.add(builder.sub(stop, first), WORD(LANES - 1)), WORD(LANES))
    last = builder.sub(stop, WORD(LANES))

    def transform_vector(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        place = builder.add(first, builder.mul(number, WORD(LANES)))
        is_inside = builder.icmp_signed("<", place, last)
        transform(builder.select(is_inside, place, last))
        return []

    vectors.repeat(builder, count, [], transform_vector)


def _load(builder: ir.IRBuilder, start: ir.Value, place: ir.Value) -> ir.Value:
    offset = builder.mul(place, WORD(_FLOAT_BYTES))
    return vectors.load(builder, _VECTOR, builder.add(start, offset))


def _store(builder: ir.IRBuilder, value: ir.Value, start: ir.Value, place: ir.Value) -> None:
    """Store a vector, every NaN as the canonical one."""
    is_nan = builder.fcmp_unordered("uno", value, value)
    value = builder.select(is_nan, ir.Constant(_VECTOR, [float(NAN)] * LANES), value)
    offset = builder.mul(place, WORD(_FLOAT_BYTES))
    vectors.store(builder, value, builder.add(start, offset))


@cache
def _unary(function: Function) -> Kernel:
    """The kernel of a function: operands, results, first and stop of a range of them."""

    def transform(
        builder: ir.IRBuilder, source: ir.Value, target: ir.Value, first: ir.Value, stop: ir.Value
    ) -> None:
        def transform_vector(place: ir.Value) -> None:
            value = emit(builder, function, _load(builder, source, place))
            _store(builder, value, target, place)

        _transform(builder, first, stop, transform_vector)

    run = emitted(types.void, *[types.intp] * 4)(transform)
    run.__name__ = function.name  # by which the cache tells its machine code from the others'

    @kernel(reads(types.float32, 1), writes(types.float32, 1), types.int64, types.int64)
    def compute(x: Floats, results: Floats, first: int, stop: int) -> None:
        run(x.ctypes.data, results.ctypes.data, first, stop)

    return compute


@emitted(types.void, *[types.intp] * 7)
def _transform_powers(
    builder: ir.IRBuilder,
    base: ir.Value,
    exponent: ir.Value,
    step: ir.Value,
    target: ir.Value,
    flags: ir.Value,
    first: ir.Value,
    stop: ir.Value,
) -> None:
    def transform_vector(place: ir.Value) -> None:
        x = _load(builder, base, place)
        y = vectors.load(builder, _VECTOR, builder.add(exponent, builder.mul(place, step)))
        value, is_doubtful = emit_power(builder, x, y)
        _store(builder, value, target, place)
        flag = builder.zext(is_doubtful, ir.VectorType(BYTE, LANES))
        vectors.store(builder, flag, builder.add(flags, place))

    _transform(builder, first, stop, transform_vector)


@kernel(
    reads(types.float32, 1),
    reads(types.float32, 1),
    types.int64,
    writes(types.float32, 1),
    writes(types.boolean, 1),
    types.int64,
    types.int64,
)
def _power(
    x: Floats, y: Floats, step: int, results: Floats, doubtful: Flags, first: int, stop: int
) -> None:
    _transform_powers(
        x.ctypes.data, y.ctypes.data, step, results.ctypes.data, doubtful.ctypes.data, first, stop
    )
