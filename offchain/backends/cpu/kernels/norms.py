"""Euclidean norms of rows and of columns, for bounds: the squares are added up in any order."""

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, kernel, reads, writes
from moot.offchain.native.vectors import DOUBLE, WORD

Doubles = npt.NDArray[np.float64]

_LANES = 16
_BYTES = 8


def measure_columns(x: Doubles) -> Doubles:
    """Return the norm of each column of each matrix of a batch.

    Args:
        x: (B, K, N) binary64, any strides.

    Returns:
        (B, N) binary64, contiguous.
    """
    squares = np.zeros((len(x), x.shape[2]))
    if x.strides[2] == _BYTES or x.shape[2] < _LANES:
        _add_up_columns(x, squares)
    elif x.strides[1] == _BYTES or x.shape[1] < _LANES:
        _add_up_rows(x.swapaxes(1, 2), squares)
    else:
        return measure_columns(x.copy())
    return np.sqrt(squares, out=squares)


def measure_rows(x: Doubles) -> Doubles:
    """Return the norm of each row, (B, M), of each matrix of a batch, (B, M, K); as of columns."""
    return measure_columns(x.swapaxes(1, 2))


@kernel(reads(types.float64, 3, "A"), writes(types.float64, 2))
def _add_up_columns(x: Doubles, squares: Doubles) -> None:
    """Add up the squares of columns, whose rows are contiguous."""
    for z in range(x.shape[0]):
        target = squares.ctypes.data + z * squares.strides[0]
        for k in range(x.shape[1]):
            source = x.ctypes.data + z * x.strides[0] + k * x.strides[1]
            whole = x.shape[2] // _LANES
            if whole:
                _add_squares(source, target, whole)
            for n in range(whole * _LANES, x.shape[2]):
                squares[z, n] += x[z, k, n] * x[z, k, n]


@kernel(reads(types.float64, 3, "A"), writes(types.float64, 2))
def _add_up_rows(x: Doubles, squares: Doubles) -> None:
    """Add up the squares of contiguous rows."""
    lanes = np.empty(_LANES)
    for z in range(x.shape[0]):
        for m in range(x.shape[1]):
            total, whole = 0.0, x.shape[2] // _LANES
            if whole:
                source = x.ctypes.data + z * x.strides[0] + m * x.strides[1]
                _add_up_squares(source, lanes.ctypes.data, whole)
                for lane in range(_LANES):
                    total += lanes[lane]
            for k in range(whole * _LANES, x.shape[2]):
                total += x[z, m, k] * x[z, m, k]
            squares[z, m] = total


@emitted(types.void, *[types.intp] * 3)
def _add_squares(
    builder: ir.IRBuilder, source: ir.Value, target: ir.Value, count: ir.Value
) -> None:
    """Add the squares of `count` vectors to as many others."""
    kind = ir.VectorType(DOUBLE, _LANES)

    def advance(index: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        offset = builder.mul(index, WORD(_BYTES * _LANES))
        values = vectors.load(builder, kind, builder.add(source, offset))
        place = builder.add(target, offset)
        before = vectors.load(builder, kind, place)
        vectors.store(builder, vectors.call(builder, "llvm.fma", [values, values, before]), place)
        return []

    vectors.repeat(builder, count, [], advance)


@emitted(types.void, *[types.intp] * 3)
def _add_up_squares(
    builder: ir.IRBuilder, source: ir.Value, target: ir.Value, count: ir.Value
) -> None:
    """Store the sums of the squares in each lane of `count` vectors, at least one."""
    kind = ir.VectorType(DOUBLE, _LANES)

    def advance(index: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        place = builder.add(source, builder.mul(index, WORD(_BYTES * _LANES)))
        terms = vectors.load(builder, kind, place)
        return [vectors.call(builder, "llvm.fma", [terms, terms, values[0]])]

    (total,) = vectors.repeat(builder, count, [ir.Constant(kind, None)], advance)
    vectors.store(builder, total, target)
