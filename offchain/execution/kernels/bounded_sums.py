"""Kernels that round sums of which a bound of the error is known, and mark those that it leaves.

Rounding to binary32 is monotonic. Where both ends of the interval round to one number, the exact
sum does, too. Ends are compared bit by bit, so that an interval around zero is never settled by
zeros of both signs, and as numbers, so that NaN and infinities (whose bound is no number) are left
to others. An interval that rounds to one zero lies on one side of zero, or it is a single zero:
that has a positive sign unless all terms are -0, which only an initial -0 permits.
"""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from offchain.execution.kernels import vectors
from offchain.execution.kernels.compiled import emitted, kernel, reads, subroutine, writes
from offchain.execution.kernels.threads import share
from offchain.execution.kernels.vectors import DOUBLE, FLOAT, INDEX, WORD

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]

UNIT = 2.0**-52
"""The greatest relative error of an operation in binary64, whichever way it rounds."""

_GRAIN = 2**16
_LANES = 8
"""Terms of a row that are added up side by side."""

_ROWS = 16
"""Rows that lie side by side and are summed together: a line of the cache."""

_FLOAT_BYTES, _DOUBLE_BYTES = 4, 8


def compute_reach(additions: int, terms: int) -> float:
    """Return by how much a sum is off at most, as a share of what its terms' magnitudes add up to.

    An addition errs by at most `UNIT` of its result, and no partial sum is above the magnitudes'
    sum by more than a share of terms * `UNIT`. That sum has been computed itself, in any order, or
    is bounded by norms that have; which makes it too small by at most 2 * (terms + 4) * `UNIT` of
    it. The initial term and the ends of the interval take less than eight operations more.

    Args:
        additions: how many additions lie between a term and the sum at most.
        terms: how many terms there are.
    """
    return (additions + 8) * UNIT * (1 + 2.0**-30 + 4 * terms * UNIT)


def round_sums(
    sums: Doubles, rows: Doubles, columns: Doubles, init: Floats, out: Floats, doubtful: Marks
) -> None:
    """Round what sums and their bounds settle, and mark what they do not.

    Args:
        sums: (B, M, N) binary64, contiguous: the sums without their initial terms.
        rows: (B, M) and
        columns: (B, N), contiguous: rows[z, m] * columns[z, n] bounds the sum's error, with four
            units of 2^-52 of the sum to spare; it is 0 only where all terms are zeros.
        init: (B, M, N) float32, any strides: the initial terms.
        out: (B, M, N) float32, contiguous: the rounded sums; it may be `init`.
        doubtful: (B, M, N) bool, contiguous: where the sum has to be made otherwise.
    """
    batch, height, width = sums.shape
    flat = sums.reshape(-1, width), rows.reshape(-1), columns
    results = out.reshape(-1, width), doubtful.reshape(-1, width)
    start, step = _read_rows(init)

    def work(first: int, stop: int) -> None:
        if start is None:
            _round_sums(*flat, *results, height, first, stop)
        else:
            _round_started(*flat, start, step, *results, height, first, stop)

    share(work, batch * height, max(1, _GRAIN // max(1, width)))


def _read_rows(init: Floats) -> tuple[Floats | None, int]:
    """Return the rows of initial terms and their step, 0 for one row; None if all terms are 0."""
    width = init.shape[2]
    if init.strides == (0, 0, 0):
        value = init[:1, :1, 0]
        return (None, 0) if value.view(np.uint32) == 0 else (value.repeat(width, 1), 0)
    if init.strides == (0, 0, init.itemsize):
        return np.ascontiguousarray(init[0, :1]), 0
    return np.ascontiguousarray(init).reshape(-1, width), 1


def sum_rows(x: Floats, init: Floats, out: Floats, doubtful: Marks) -> None:
    """Sum each row of a matrix in binary64, and mark the sums that stay in doubt.

    Args:
        x: (M, K) float32, any strides.
        init: (M,) float32, contiguous: the initial terms.
        out: (M,) float32, contiguous: the rounded sums.
        doubtful: (M,) bool, contiguous: where the sum has to be made otherwise.
    """
    rows, terms = x.shape
    unit = x.itemsize
    if unit not in x.strides or min(x.strides) < 0 or any(step % unit for step in x.strides):
        x = np.ascontiguousarray(x)
    row_step, step = (stride // unit for stride in x.strides)
    size = 1 + (rows - 1) * row_step + (terms - 1) * step
    flat = np.lib.stride_tricks.as_strided(x, (size,), (unit,), writeable=False)
    reach = compute_reach(terms + 1, terms + 1)

    def work(first: int, stop: int) -> None:
        if step == 1:
            _sum_rows(flat, row_step, terms, init, reach, out, doubtful, first, stop)
        else:
            _sum_columns(flat, step, terms, init, reach, out, doubtful, first, stop)

    share(work, rows, _ROWS * max(1, _GRAIN // (_ROWS * max(1, terms))))


@emitted(types.float64, *[types.float64] * 3)
def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return vectors.call(builder, "llvm.fma", [a, b, c])


@emitted(types.int32, types.float32)
def _get_bits(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.bitcast(x, INDEX)


@subroutine
def _is_open(low: np.float32, high: np.float32) -> Any:
    """Return whether two ends are not the same number."""
    return (low != high) | (_get_bits(low) != _get_bits(high))


@subroutine
def _round_row(sums: Doubles, row: float, columns: Doubles, out: Floats, doubtful: Marks) -> None:
    for n in range(columns.size):
        low = np.float32(_fma(-row, columns[n], sums[n]))
        high = np.float32(_fma(row, columns[n], sums[n]))
        out[n] = low
        doubtful[n] = _is_open(low, high)


@subroutine
def _round_started_row(
    sums: Doubles, row: float, columns: Doubles, init: Floats, out: Floats, doubtful: Marks
) -> None:
    for n in range(columns.size):
        start = init[n]
        middle = sums[n] + np.float64(start)
        slack = _fma(row, columns[n], 4 * UNIT * abs(middle))
        low, high = np.float32(middle - slack), np.float32(middle + slack)
        out[n] = low
        doubtful[n] = _is_open(low, high) | ((low == 0) & (_get_bits(start) < 0))


_SUMS = (
    reads(types.float64, 2),
    reads(types.float64, 1),
    reads(types.float64, 2),
)
_RESULTS = (writes(types.float32, 2), writes(types.boolean, 2), *[types.int64] * 3)


@kernel(*_SUMS, *_RESULTS)
def _round_sums(
    sums: Doubles,
    rows: Doubles,
    columns: Doubles,
    out: Floats,
    doubtful: Marks,
    height: int,
    first: int,
    stop: int,
) -> None:
    for m in range(first, stop):
        _round_row(sums[m], rows[m], columns[m // height], out[m], doubtful[m])


@kernel(*_SUMS, reads(types.float32, 2), types.int64, *_RESULTS)
def _round_started(
    sums: Doubles,
    rows: Doubles,
    columns: Doubles,
    init: Floats,
    step: int,
    out: Floats,
    doubtful: Marks,
    height: int,
    first: int,
    stop: int,
) -> None:
    for m in range(first, stop):
        start, width = init[m * step], columns[m // height]
        _round_started_row(sums[m], rows[m], width, start, out[m], doubtful[m])


@subroutine
def _round(total: float, magnitude: float, smallest: float, start: np.float32, reach: float) -> Any:
    """Return a rounded sum of terms and its initial one, and whether it is in doubt.

    Args:
        total: the sum of the terms.
        magnitude: the sum of their magnitudes.
        smallest: the least of these but zeros.
        start: the initial term.
        reach: what `compute_reach` says of as many terms.
    """
    first = np.float64(start)
    middle, whole = total + first, magnitude + abs(first)
    if first != 0:
        smallest = min(smallest, abs(first))
    # All terms are multiples of the last place of the smallest one, and all partial sums below
    # 2^53 such places: binary64 holds each of them, and no addition has erred.
    slack = 0.0 if whole <= 2.0**29 * smallest else reach * whole
    low, high = np.float32(middle - slack), np.float32(middle + slack)
    return low, _is_open(low, high) | ((low == 0) & (_get_bits(start) < 0))


_PARAMETERS = (
    reads(types.float32, 1),
    types.int64,
    types.int64,
    reads(types.float32, 1),
    types.float64,
    writes(types.float32, 1),
    writes(types.boolean, 1),
    types.int64,
    types.int64,
)


def _emit_sums(
    builder: ir.IRBuilder, lanes: int, source: ir.Value, step: ir.Value, count: ir.Value
) -> list[ir.Value]:
    """Sum `count` vectors, at least one, that lie `step` bytes apart, each lane by itself.

    Returns the sums, those of magnitudes, and the smallest magnitudes but zeros.
    """
    wide, narrow = (ir.VectorType(kind, lanes) for kind in (DOUBLE, FLOAT))
    zeros, infinities = ir.Constant(narrow, None), ir.Constant(narrow, [float("inf")] * lanes)

    def advance(index: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        total, magnitude, smallest = values
        terms = vectors.load(builder, narrow, builder.add(source, builder.mul(index, step)))
        sizes = vectors.call(builder, "llvm.fabs", [terms])
        others = builder.select(builder.fcmp_unordered("!=", terms, zeros), sizes, infinities)
        return [
            builder.fadd(total, builder.fpext(terms, wide)),
            builder.fadd(magnitude, builder.fpext(sizes, wide)),
            _emit_least(builder, others, smallest),
        ]

    begin = [ir.Constant(wide, None), ir.Constant(wide, None), infinities]
    total, magnitude, smallest = vectors.repeat(builder, count, begin, advance)
    return [total, magnitude, builder.fpext(smallest, wide)]


def _emit_least(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


@emitted(types.void, *[types.intp] * 4)
def _sum_lanes(
    builder: ir.IRBuilder, source: ir.Value, step: ir.Value, count: ir.Value, target: ir.Value
) -> None:
    """Store three vectors: what `_emit_sums` returns."""
    for place, vector in enumerate(_emit_sums(builder, _ROWS, source, step, count)):
        vectors.store(builder, vector, target, _DOUBLE_BYTES * _ROWS * place)


@emitted(types.void, *[types.intp] * 3)
def _sum_all(builder: ir.IRBuilder, source: ir.Value, count: ir.Value, target: ir.Value) -> None:
    """Store three numbers: what `_emit_sums` returns, over all lanes."""
    step = WORD(_FLOAT_BYTES * _LANES)
    found = _emit_sums(builder, _LANES, source, step, count)
    for place, (vector, join) in enumerate(
        zip(found, (builder.fadd, builder.fadd, partial(_emit_least, builder)), strict=True)
    ):
        while vector.type.count > 1:
            half = vector.type.count // 2
            low, high = (
                vectors.shuffle(builder, vector, vector, list(range(first, first + half)))
                for first in (0, half)
            )
            vector = join(low, high)  # noqa: PLW2901 - it is halved
        vectors.store(builder, vector, target, _DOUBLE_BYTES * place)


@subroutine
def _advance(
    total: float, magnitude: float, smallest: float, term: float
) -> tuple[float, float, float]:
    size = abs(term)
    if 0 < size < smallest:
        smallest = size
    return total + term, magnitude + size, smallest


@kernel(*_PARAMETERS)
def _sum_rows(
    x: Floats,
    row_step: int,
    terms: int,
    init: Floats,
    reach: float,
    out: Floats,
    doubtful: Marks,
    first: int,
    stop: int,
) -> None:
    """Sum rows whose elements lie side by side."""
    found, whole = np.empty(3), terms // _LANES
    for row in range(first, stop):
        start = row * row_step
        total, magnitude, smallest = 0.0, 0.0, np.inf
        if whole:
            _sum_all(x.ctypes.data + _FLOAT_BYTES * start, whole, found.ctypes.data)
            total, magnitude, smallest = found
        for k in range(start + whole * _LANES, start + terms):
            total, magnitude, smallest = _advance(total, magnitude, smallest, np.float64(x[k]))
        out[row], doubtful[row] = _round(total, magnitude, smallest, init[row], reach)


@kernel(*_PARAMETERS)
def _sum_columns(
    x: Floats,
    step: int,
    terms: int,
    init: Floats,
    reach: float,
    out: Floats,
    doubtful: Marks,
    first: int,
    stop: int,
) -> None:
    """Sum rows that lie side by side, several at a time."""
    found = np.empty((3, _ROWS))
    for start in range(first, stop, _ROWS):
        count = min(_ROWS, stop - start)
        if count == _ROWS:
            source = x.ctypes.data + _FLOAT_BYTES * start
            _sum_lanes(source, _FLOAT_BYTES * step, terms, found.ctypes.data)
        else:
            found[:2] = 0
            found[2] = np.inf
            for lane in range(count):
                for k in range(terms):
                    term = np.float64(x[start + lane + k * step])
                    found[0, lane], found[1, lane], found[2, lane] = _advance(
                        found[0, lane], found[1, lane], found[2, lane], term
                    )
        for lane in range(count):
            out[start + lane], doubtful[start + lane] = _round(
                found[0, lane], found[1, lane], found[2, lane], init[start + lane], reach
            )
