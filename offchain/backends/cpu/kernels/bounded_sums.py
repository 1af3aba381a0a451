"""Kernels that round sums of which a bound of the error is known, and mark those that it leaves.

Rounding to binary32 is monotonic. Where both ends of the interval round to one number, the exact
sum does, too. Ends are compared bit by bit, so that an interval around zero is never settled by
zeros of both signs, and as numbers, so that NaN and infinities (whose bound is no number) are left
to others. An interval that rounds to one zero lies on one side of zero, or it is a single zero:
that has a positive sign unless all terms are -0, which only an initial -0 permits.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.row_sums import (
    ROWS,
    read_rows,
    run_on_rows,
    sum_row,
    sum_rows_across,
)
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import INDEX

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]

UNIT = 2.0**-52
"""The greatest relative error of an operation in binary64, whichever way it rounds."""

_GRAIN = 2**16


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
    is_nothing = init.strides == (0, 0, 0) and init[0, 0, 0].view(np.uint32) == 0
    start, step = read_rows(init)

    def work(first: int, stop: int) -> None:
        if is_nothing:
            _round_sums(*flat, *results, height, first, stop)
        else:
            _round_started(*flat, start, step, *results, height, first, stop)

    share(work, batch * height, max(1, _GRAIN // max(1, width)))


def sum_rows(x: Floats, init: Floats, out: Floats, doubtful: Marks) -> None:
    """Sum each row of a matrix in binary64, and mark the sums that stay in doubt.

    Args:
        x: (M, K) float32, any strides.
        init: (M,) float32, contiguous: the initial terms.
        out: (M,) float32, contiguous: the rounded sums.
        doubtful: (M,) bool, contiguous: where the sum has to be made otherwise.
    """
    terms = x.shape[1]
    reach = compute_reach(terms + 1, terms + 1)
    run_on_rows(x, _sum_rows, _sum_columns, init, reach, out, doubtful)


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
    found = np.empty(3)
    for row in range(first, stop):
        total, magnitude, smallest = sum_row(x, row * row_step, terms, found)
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
    found = np.empty((3, ROWS))
    for start in range(first, stop, ROWS):
        count = min(ROWS, stop - start)
        sum_rows_across(x, start, step, terms, count, found)
        for row in range(count):
            out[start + row], doubtful[start + row] = _round(
                found[0, row], found[1, row], found[2, row], init[start + row], reach
            )
