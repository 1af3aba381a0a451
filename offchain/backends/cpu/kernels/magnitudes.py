"""The greatest magnitude of the elements of matrices."""

from math import prod

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.gemm import Floats
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, kernel, reads, writes
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import INDEX, WORD

_Bits = npt.NDArray[np.uint32]

_GRAIN = 2**18
"""Elements that make another thread worth its start."""

_LANES = 64
_WIDTH = 4
_MAGNITUDE = 0x7FFFFFFF


def find_magnitude(x: Floats) -> float:
    """Return the greatest magnitude of some elements, NaN if there is one.

    Args:
        x: of three axes and any strides, with one element at least.
    """
    once = x[tuple(slice(None if stride else 1) for stride in x.strides)]
    order = sorted(range(x.ndim), key=lambda axis: abs(once.strides[axis]), reverse=True)
    rows = once.transpose(order).view(np.uint32)
    if rows.flags.c_contiguous:
        rows = rows.reshape(len(rows), 1, -1)
    elif rows.strides[-1] != _WIDTH:
        rows = np.ascontiguousarray(rows)
    found: list[np.uint32] = []

    def work(first: int, stop: int) -> None:
        lanes = np.zeros(_LANES, np.uint32)
        _find(rows[first:stop], lanes)
        found.append(lanes.max())

    share(work, len(rows), max(1, _GRAIN // prod(rows.shape[1:])))
    return float(max(found).view(np.float32))


@kernel(reads(types.uint32, 3, "A"), writes(types.uint32, 1))
def _find(x: _Bits, lanes: _Bits) -> None:
    """Find the greatest magnitudes, as integers, which are ordered as they are and NaN beyond."""
    for z in range(x.shape[0]):
        for m in range(x.shape[1]):
            whole = x.shape[2] // _LANES
            if whole:
                source = x.ctypes.data + z * x.strides[0] + m * x.strides[1]
                _find_greatest(source, lanes.ctypes.data, whole)
            for k in range(whole * _LANES, x.shape[2]):
                lanes[0] = max(lanes[0], x[z, m, k] & _MAGNITUDE)


@emitted(types.void, *[types.intp] * 3)
def _find_greatest(
    builder: ir.IRBuilder, source: ir.Value, lanes: ir.Value, count: ir.Value
) -> None:
    """Let each lane be the greatest of itself and of the magnitudes in `count` vectors."""
    kind = ir.VectorType(INDEX, _LANES)
    mask = ir.Constant(kind, [_MAGNITUDE] * _LANES)

    def advance(index: ir.Value, greatest: list[ir.Value]) -> list[ir.Value]:
        place = builder.add(source, builder.mul(index, WORD(_WIDTH * _LANES)))
        magnitudes = builder.and_(vectors.load(builder, kind, place), mask)
        return [vectors.call(builder, "llvm.umax", [greatest[0], magnitudes])]

    found = vectors.repeat(builder, count, [vectors.load(builder, kind, lanes)], advance)
    vectors.store(builder, found[0], lanes)
