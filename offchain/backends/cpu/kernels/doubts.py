"""Kernels that round binary64 results to binary32, and mark those that are near a boundary.

A mark is a NaN that no operator gives as a result, in the result's place: so whoever computes a
tensor part by part, in any layout, marks its elements without knowing which they are.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.arithmetic.float32 import NEGATIVE_ZERO
from moot.offchain.backends.cpu.kernels.row_sums import (
    ROWS,
    read_rows,
    run_on_rows,
    sum_row,
    sum_rows_across,
)
from moot.offchain.native.compiled import kernel, reads, subroutine, writes
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import NAN

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

DOUBTFUL = np.uint32(0x7FC00001).view(np.float32)
"""The mark; the NaN that is a result is 0x7fc00000."""

MARK = int(DOUBTFUL.view(np.uint32))
"""Its bits."""

SPARE = 2.0**-48
"""The share of a sum's size that is added to its reach, for the last operations on it."""

EXACT_RATIO = 2.0**28
"""Terms that add up to at most so many times the smallest of them are multiples of its last place,
which is above 2^-24 of it, and so 2^52 such places hold every sum of some of them."""

_GRAIN = 2**16


def round_products(
    sums: Doubles, rows: Doubles, columns: Doubles, init: Floats, out: Floats
) -> None:
    """Add initial terms to sums and round them, but mark those that a reach of theirs may change.

    Args:
        sums: (B, M, N) binary64, contiguous: the sums without their initial terms.
        rows: (B, M) and
        columns: (B, N), contiguous: the reach is rows[z, m] * columns[z, n] and a `SPARE` of the
            sum. The product is 0 only where all terms are zeros.
        init: (B, M, N) float32, any strides: the initial terms.
        out: (B, M, N) float32, contiguous.
    """
    batch, height, width = sums.shape
    flat, (start, step) = (sums.reshape(-1, width), rows.reshape(-1), columns), read_rows(init)
    is_signed = bool((start.view(np.uint32) == NEGATIVE_ZERO).any())

    def work(first: int, stop: int) -> None:
        _round_products(*flat, start, step, is_signed, out.reshape(-1, width), height, first, stop)

    share(work, batch * height, max(1, _GRAIN // max(1, width)))


def round_values(values: Doubles, share_of_each: float, out: Floats) -> None:
    """Round numbers, but mark those that a share of their size may change.

    Args:
        values: (N,) binary64, contiguous.
        share_of_each: the reach, as a share of each number.
        out: (N,) float32, contiguous.
    """
    _round_values(values, share_of_each, out)


def sum_rows(x: Floats, init: Floats, reach: float, out: Floats) -> None:
    """Round the sum of each row, or mark it where it is in doubt.

    Args:
        x: (M, K) float32, any strides.
        init: (M,) float32, contiguous: the initial terms.
        reach: how far from a boundary a sum is marked that binary64 does not hold exactly, as a
            share of the sum of the terms' and of the initial term's magnitudes.
        out: (M,) float32, contiguous.
    """
    run_on_rows(x, _sum_rows, _sum_columns, init, reach, out)


@subroutine
def _round_or_mark(middle: float, reach: float, is_signed: bool) -> Any:  # noqa: FBT001 - of a kernel
    """Return a number rounded, or the mark if its reach matters, or if zero may have a sign."""
    is_zero = (abs(middle) <= reach) & (is_signed | (reach != 0))
    is_open = (np.float32(middle - reach) != np.float32(middle + reach)) | is_zero
    found = DOUBTFUL if is_open & (abs(middle) < np.inf) else np.float32(middle)
    return found if middle == middle else NAN  # noqa: PLR0124 - NaN alone differs from itself


@subroutine
def _round_row(
    sums: Doubles,
    row: float,
    columns: Doubles,
    init: Floats,
    is_signed: bool,  # noqa: FBT001 - likewise
    out: Floats,
) -> None:
    for n in range(columns.size):
        middle = sums[n] + np.float64(init[n])
        out[n] = _round_or_mark(middle, row * columns[n] + SPARE * abs(middle), is_signed)


@kernel(
    reads(types.float64, 2),
    reads(types.float64, 1),
    reads(types.float64, 2),
    reads(types.float32, 2),
    types.int64,
    types.boolean,
    writes(types.float32, 2),
    *[types.int64] * 3,
)
def _round_products(
    sums: Doubles,
    rows: Doubles,
    columns: Doubles,
    init: Floats,
    step: int,
    is_signed: bool,  # noqa: FBT001 - of a kernel
    out: Floats,
    height: int,
    first: int,
    stop: int,
) -> None:
    for m in range(first, stop):
        _round_row(sums[m], rows[m], columns[m // height], init[m * step], is_signed, out[m])


@kernel(reads(types.float64, 1), types.float64, writes(types.float32, 1))
def _round_values(values: Doubles, share_of_each: float, out: Floats) -> None:
    for n in range(values.size):
        out[n] = _round_or_mark(values[n], share_of_each * abs(values[n]), False)


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
    return _round_or_mark(total + first, slack, (size == 0) & (np.copysign(1.0, first) < 0))


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
    """Sum rows whose terms lie side by side."""
    found = np.empty(3)
    for row in range(first, stop):
        total, magnitude, smallest = sum_row(x, row * row_step, terms, found)
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
    """Sum rows that lie side by side, several at a time."""
    found = np.empty((3, ROWS))
    for start in range(first, stop, ROWS):
        count = min(ROWS, stop - start)
        sum_rows_across(x, start, step, terms, count, found)
        for row in range(count):
            out[start + row] = _finish(
                found[0, row], found[1, row], found[2, row], init[start + row], reach
            )
