"""Folds over the last axis of a matrix, in ascending order: one accumulator for each row.

Sixteen rows are folded at once, one in each lane of a vector. Maxima and minima are taken on
integers that are ordered as their numbers are: -0 below +0, and NaN above everything.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.functions import CANONICAL_NAN
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import FLOAT, INDEX

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.int32]

_LANES = 16
_WIDE_BLOCK = 16 * _LANES
"""Rows that are folded together, 16 elements of each in turn, if they lie side by side."""

_GRAIN = 2**17
"""Elements that make another thread worth its start."""

_LONG_ROW = 256
"""Elements that lie side by side and are worth a search of their own."""

_ADD, _MAX, _MIN = 0, 1, 2
_OPERATIONS = {"add": _ADD, "max": _MAX, "min": _MIN}

_FLOATS = ir.VectorType(FLOAT, _LANES)
_KEYS = ir.VectorType(INDEX, _LANES)
_SIGN = -(2**31)
_MAGNITUDE = 2**31 - 1
_INFINITY = 0x7F800000


def fold(
    x: npt.NDArray[np.generic], function: Literal["add", "max", "min"], init: float
) -> npt.NDArray[Any]:
    """Fold each row: f(f(f(init, x[o, 0]), x[o, 1]), ...).

    Args:
        x: (O, K), any strides; float32, or for "add" also int64, which wraps around.
        function: what to fold with; a maximum or minimum is NaN if an operand is.
        init: what each fold starts from, a number of the type of `x`.

    Returns:
        (O,) of the type of `x`.
    """
    if x.dtype == np.int64 and function == "add":
        total: npt.NDArray[np.int64] = x.sum(axis=1)  # wraps around, so the order does not matter
        return total + np.int64(init)
    results = np.empty(len(x) + _LANES, np.float32)  # rows are written 16 at a time
    bits = x.view(np.int32), np.float32(init).view(np.int32), results.view(np.int32)
    _share_rows(x, lambda *rows: _fold(*bits, _OPERATIONS[function], *rows))
    return results[: len(x)]


def argmax(x: Floats) -> Integers:
    """Find the first maximum of each row, or its first NaN; +0 and -0 are equal.

    Args:
        x: (O, K) float32, any strides, K at least 1.

    Returns:
        (O,) int64.
    """
    return _find(x, np.argmax, np.float32(1))


def argmin(x: Floats) -> Integers:
    """Find the first minimum of each row, or its first NaN; otherwise like `argmax`."""
    return _find(x, np.argmin, np.float32(-1))


def _find(x: Floats, find: Callable[..., Any], factor: np.float32) -> Integers:
    """Find the extrema: numpy's search is fast along a row, and ours in many rows at once."""
    if not x.shape[1]:
        raise ValueError("an empty row has no extremum")
    places = np.empty(len(x), np.int64)

    def find_rows(first: int, stop: int) -> None:
        find(x[first:stop], 1, places[first:stop])

    is_along = x.strides[1] == x.itemsize and x.shape[1] >= _LONG_ROW
    work = find_rows if is_along else partial(_find_maximum, x, factor, places)
    _share_rows(x, work)
    return places


def _share_rows(x: npt.NDArray[Any], work: Callable[[int, int], object]) -> None:
    rows, depth = x.shape
    block = _LANES * max(1, _GRAIN // (_LANES * max(1, depth)))
    share(work, rows, block)


@subroutine
def _block(row_step: int, step: int) -> int:
    """How many rows to fold together, by how their elements lie in memory."""
    return _WIDE_BLOCK if abs(row_step) < abs(step) else _LANES


def _emit_square(
    builder: ir.IRBuilder,
    combine: Callable[[ir.Value, ir.Value], ir.Value],
    kind: ir.VectorType,
    place: tuple[ir.Value, ...],
) -> None:
    source, row_step, step, rows, target = place
    start = vectors.load(builder, kind, target)

    def fold_into_target(operands: list[ir.Value]) -> None:
        accumulator = start
        for operand in operands:
            accumulator = combine(accumulator, operand)
        vectors.store(builder, accumulator, target)

    rows_are_contiguous = builder.icmp_signed("==", step, step.type(4))
    with builder.if_else(rows_are_contiguous) as (then, otherwise):
        with then:
            fold_into_target(vectors.load_columns(builder, kind, source, row_step, rows))
        with otherwise:
            fold_into_target(vectors.load_rows(builder, kind, source, step))


def _emit_maximum(
    builder: ir.IRBuilder, operation: ir.Value, key: ir.Value, bits: ir.Value
) -> ir.Value:
    """`_step` of a maximum or minimum, in every lane."""

    def constant(value: int) -> ir.Value:
        return ir.Constant(_KEYS, [value] * _LANES)

    is_minimum = builder.icmp_signed("==", operation, operation.type(_MIN))
    flip = vectors.splat(builder, builder.select(is_minimum, INDEX(_SIGN), INDEX(0)), _LANES)
    magnitude = builder.and_(bits, constant(_MAGNITUDE))
    is_nan = builder.icmp_signed(">", magnitude, constant(_INFINITY))
    flipped = builder.xor(bits, flip)
    sign = builder.ashr(flipped, constant(31))
    ordered = builder.xor(flipped, builder.and_(sign, constant(_MAGNITUDE)))
    new_key = builder.select(is_nan, constant(CANONICAL_NAN), ordered)
    return vectors.call(builder, "llvm.smax", [key, new_key])


@emitted(types.void, *[types.intp] * 6)
def _fold_square(builder: ir.IRBuilder, operation: ir.Value, *place: ir.Value) -> None:
    """Fold 16 elements of each of 16 rows or fewer into the accumulators at the last argument.

    Either the elements of a row lie side by side, or the 16 rows do.
    """
    adds = builder.icmp_signed("==", operation, operation.type(_ADD))
    with builder.if_else(adds) as (then, otherwise):
        with then:
            _emit_square(builder, builder.fadd, _FLOATS, place)
        with otherwise:
            maximum = partial(_emit_maximum, builder, operation)
            _emit_square(builder, maximum, _KEYS, place)


@subroutine
def _start(operation: int, bits: int) -> int:
    """The accumulator of a number: the number itself, or an integer in the order of the numbers."""
    if operation == _ADD:
        return bits
    if bits & _MAGNITUDE > _INFINITY:
        return CANONICAL_NAN
    flipped = bits ^ (_SIGN if operation == _MIN else 0)
    return flipped ^ (flipped >> 31 & _MAGNITUDE)


@subroutine
def _step(operation: int, accumulator: int, bits: int) -> int:
    if operation == _ADD:
        total = np.int32(accumulator).view(np.float32) + np.int32(bits).view(np.float32)
        return int(np.float32(total).view(np.int32))
    return max(accumulator, _start(operation, bits))


@subroutine
def _result(operation: int, accumulator: int) -> int:
    """The number of an accumulator."""
    if accumulator & _MAGNITUDE > _INFINITY and (operation == _ADD or accumulator > 0):
        return CANONICAL_NAN
    if operation == _ADD:
        return accumulator
    return accumulator ^ (accumulator >> 31 & _MAGNITUDE) ^ (_SIGN if operation == _MIN else 0)


@kernel(
    reads(types.int32, 2, "A"),
    types.int32,
    writes(types.int32, 1),
    types.int64,
    types.int64,
    types.int64,
)
def _fold(x: Bits, init: int, results: Bits, operation: int, first: int, stop: int) -> None:
    """Fold the rows from `first` to `stop`."""
    depth = x.shape[1]
    row_step, step = x.strides
    block = _block(row_step, step)
    for start in range(first, stop, block):
        end = min(stop, start + block)
        results[start:end] = _start(operation, init)
        for k in range(0, depth, _LANES):
            whole = k + _LANES <= depth
            for row in range(start, end, _LANES):
                rows = min(_LANES, end - row)
                if whole and ((step == 4 and rows > 2) or (row_step == 4 and rows == _LANES)):
                    source = x.ctypes.data + row * row_step + k * step
                    target = results.ctypes.data + row * 4
                    _fold_square(operation, source, row_step, step, rows, target)
                    continue
                for i in range(row, row + rows):
                    for j in range(k, min(k + _LANES, depth)):
                        results[i] = _step(operation, results[i], x[i, j])
        for row in range(start, end):
            results[row] = _result(operation, results[row])


@kernel(
    reads(types.float32, 2, "A"), types.float32, writes(types.int64, 1), types.int64, types.int64
)
def _find_maximum(x: Floats, factor: np.float32, places: Integers, first: int, stop: int) -> None:
    """Find where `factor` times each of the rows from `first` to `stop` is greatest."""
    block = _block(*x.strides)
    best = np.empty(block, np.float32)
    for start in range(first, stop, block):
        end = min(stop, start + block)
        for row in range(start, end):
            places[row], best[row - start] = 0, factor * x[row, 0]
        for k in range(1, x.shape[1]):
            for row in range(start, end):
                value, greatest = factor * x[row, k], best[row - start]
                if value > greatest or (np.isnan(value) and not np.isnan(greatest)):
                    places[row], best[row - start] = k, value
