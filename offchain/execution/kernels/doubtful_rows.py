"""Kernels that add up rows in binary64 and round the sums, but mark those that are in doubt."""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from offchain.execution.kernels import vectors
from offchain.execution.kernels.compiled import emitted, kernel, reads, subroutine, writes
from offchain.execution.kernels.doubts import round_or_mark
from offchain.execution.kernels.threads import share
from offchain.execution.kernels.vectors import DOUBLE, FLOAT

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_GRAIN = 2**16
_LANES = 16
"""Terms of a row that are added up side by side, or rows."""

_FLOAT_BYTES, _DOUBLE_BYTES = 4, 8

EXACT_RATIO = 2.0**28
"""Terms that add up to at most so many times the smallest of them are multiples of its last place,
which is above 2^-24 of it, and so 2^52 such places hold every sum of some of them."""


def sum_rows(x: Floats, init: Floats, reach: float, out: Floats) -> None:
    """Round the sum of each row, or mark it where it is in doubt.

    Args:
        x: (M, K) float32, any strides.
        init: (M,) float32, contiguous: the initial terms.
        reach: how far from a boundary a sum is marked that binary64 does not hold exactly, as a
            share of the sum of the terms' and of the initial term's magnitudes.
        out: (M,) float32, contiguous.
    """
    unit = x.itemsize
    if unit not in x.strides or min(x.strides) < 0 or any(step % unit for step in x.strides):
        x = np.ascontiguousarray(x)
    rows, terms = x.shape
    row_step, step = (stride // unit for stride in x.strides)
    size = 1 + (rows - 1) * row_step + (terms - 1) * step
    flat = np.lib.stride_tricks.as_strided(x, (size,), (unit,), writeable=False)

    def work(first: int, stop: int) -> None:
        if step == 1:
            _sum_rows(flat, row_step, terms, init, reach, out, first, stop)
        else:
            _sum_columns(flat, step, terms, init, reach, out, first, stop)

    share(work, rows, _LANES * max(1, _GRAIN // (_LANES * max(1, terms))))


@emitted(types.void, *[types.intp] * 4)
def _add_up(
    builder: ir.IRBuilder, source: ir.Value, step: ir.Value, count: ir.Value, target: ir.Value
) -> None:
    """Add up `count` vectors, at least one, that lie `step` bytes apart, each lane by itself.

    It stores the sums, those of magnitudes, and the smallest magnitudes but zeros.
    """
    wide, narrow = (ir.VectorType(kind, _LANES) for kind in (DOUBLE, FLOAT))
    zeros, infinities = ir.Constant(narrow, None), ir.Constant(narrow, [float("inf")] * _LANES)

    def advance(index: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        total, magnitude, smallest = values
        terms = vectors.load(builder, narrow, builder.add(source, builder.mul(index, step)))
        sizes = vectors.call(builder, "llvm.fabs", [terms])
        others = builder.select(builder.fcmp_unordered("!=", terms, zeros), sizes, infinities)
        return [
            builder.fadd(total, builder.fpext(terms, wide)),
            builder.fadd(magnitude, builder.fpext(sizes, wide)),
            builder.select(builder.fcmp_ordered("<", others, smallest), others, smallest),
        ]

    begin = [ir.Constant(wide, None), ir.Constant(wide, None), infinities]
    total, magnitude, smallest = vectors.repeat(builder, count, begin, advance)
    found = [total, magnitude, builder.fpext(smallest, wide)]
    for place, vector in enumerate(found):
        vectors.store(builder, vector, target, _DOUBLE_BYTES * _LANES * place)


@subroutine
def _begin(state: Doubles) -> None:
    state[:2] = 0
    state[2] = np.inf


@subroutine
def _advance(state: Doubles, lane: int, term: np.float32) -> None:
    wide = np.float64(term)
    size = abs(wide)
    state[0, lane] += wide
    state[1, lane] += size
    if 0 < size < state[2, lane]:
        state[2, lane] = size


@subroutine
def _finish(
    total: float, magnitude: float, smallest: float, start: np.float32, reach: float
) -> Any:
    """Return the rounded sum or the mark.

    Args:
        total: the sum of the terms.
        magnitude: the sum of their magnitudes.
        smallest: the least of these but zeros.
        start: the initial term.
        reach: that of `sum_rows`.
    """
    first = np.float64(start)
    size = abs(first)
    whole = magnitude + size
    if size != 0:
        smallest = min(smallest, size)
    slack = 0.0 if whole <= EXACT_RATIO * smallest else reach * whole
    return round_or_mark(total + first, slack, (size == 0) & (np.copysign(1.0, first) < 0))


_PARAMETERS = (
    reads(types.float32, 1),
    types.int64,
    types.int64,
    reads(types.float32, 1),
    types.float64,
    writes(types.float32, 1),
    *[types.int64] * 2,
)


@kernel(*_PARAMETERS)
def _sum_rows(
    x: Floats,
    row_step: int,
    terms: int,
    init: Floats,
    reach: float,
    out: Floats,
    first: int,
    stop: int,
) -> None:
    """Sum rows whose elements lie side by side."""
    state, whole = np.empty((3, _LANES)), terms // _LANES
    for row in range(first, stop):
        start = row * row_step
        if whole:
            source = x.ctypes.data + _FLOAT_BYTES * start
            _add_up(source, _FLOAT_BYTES * _LANES, whole, state.ctypes.data)
        else:
            _begin(state)
        for lane in range(terms - whole * _LANES):
            _advance(state, lane, x[start + whole * _LANES + lane])
        total, magnitude, smallest = 0.0, 0.0, np.inf
        for lane in range(_LANES):
            total += state[0, lane]
            magnitude += state[1, lane]
            smallest = min(smallest, state[2, lane])
        out[row] = _finish(total, magnitude, smallest, init[row], reach)


@kernel(*_PARAMETERS)
def _sum_columns(
    x: Floats,
    step: int,
    terms: int,
    init: Floats,
    reach: float,
    out: Floats,
    first: int,
    stop: int,
) -> None:
    """Sum rows that lie side by side."""
    state = np.empty((3, _LANES))
    for start in range(first, stop, _LANES):
        count = min(_LANES, stop - start)
        if count == _LANES:
            source = x.ctypes.data + _FLOAT_BYTES * start
            _add_up(source, _FLOAT_BYTES * step, terms, state.ctypes.data)
        else:
            _begin(state)
            for k in range(terms):
                for lane in range(count):
                    _advance(state, lane, x[start + k * step + lane])
        for lane in range(count):
            out[start + lane] = _finish(
                state[0, lane], state[1, lane], state[2, lane], init[start + lane], reach
            )
