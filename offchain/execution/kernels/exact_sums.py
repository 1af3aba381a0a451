"""Kernels that find the correctly rounded value of exact sums, and say where they did not.

A sum in binary64 comes with a bound of its error, and rounding to binary32 is monotonic: where both
ends of the interval round to one number, the exact sum does, too.

`decide` looks at sums that somebody else has made, in any order. The other kernels sum on their own
by Knuth's two-sum, which finds the error of each addition, and add these errors up: the exact sum
of n terms is within n * 2^-52 * (the sum of the errors' magnitudes) of the pair of both sums, as in
Ogita, Rump and Oishi (2005), and it is known exactly where no error was made.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types

from offchain.execution.kernels.compiled import kernel, reads, subroutine, writes
from offchain.execution.kernels.threads import share
from offchain.execution.kernels.vectors import NAN

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Marks = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

UNIT = 2.0**-52
"""The greatest relative error of an operation in binary64, whichever way it rounds."""

_GRAIN = 2**16
_LANES = 16


def decide(
    sums: Doubles, rows: Doubles, columns: Doubles, init: Floats, out: Floats, doubtful: Marks
) -> None:
    """Round what sums and their bounds settle, and mark what they do not.

    Args:
        sums: (M, N) binary64, contiguous: the sums without their initial terms.
        rows: (M,) and
        columns: (N,): the sum at m, n is off by at most rows[m] * columns[n], which is 0 only where
            all its terms are zeros.
        init: (M, N) float32, any strides: the initial terms.
        out: (M, N) float32, contiguous: the rounded sums.
        doubtful: (M, N) uint8, contiguous: 1 where the sum has to be made otherwise.
    """

    def work(first: int, stop: int) -> None:
        _decide(sums, rows, columns, init, out, doubtful, first, stop)

    share(work, len(sums), max(1, _GRAIN // max(1, sums.shape[1])))


def settle_products(
    a: Doubles, b: Doubles, init: Floats, places: Integers, out: Floats, left: Marks
) -> None:
    """Sum some elements of a product anew, more precisely.

    Args:
        a: (M, K) binary64, any strides, whose elements are float32.
        b: (K, N) likewise.
        init: (M, N) float32, any strides: the initial terms.
        places: (P,) int64: the elements' places in the product.
        out: (P,) float32: the rounded sums.
        left: (P,) uint8: 1 where the sum is still in doubt.
    """

    def work(first: int, stop: int) -> None:
        _settle_products(a, b, init, places, out, left, first, stop)

    share(work, len(places), max(1, _GRAIN // max(1, 8 * a.shape[1])))


def sum_rows(x: Floats, init: Floats, out: Floats, left: Marks) -> None:
    """Sum each row of a matrix.

    Args:
        x: (M, K) float32, any strides.
        init: (M,) float32: the initial terms.
        out: (M,) float32: the rounded sums.
        left: (M,) uint8: 1 where the sum is in doubt.
    """

    def work(first: int, stop: int) -> None:
        _sum_rows(x, init, out, left, first, stop)

    grain = _LANES * max(1, _GRAIN // (_LANES * max(1, x.shape[1])))
    share(work, len(x), grain)


def scatter_sums(target_rows: Integers, source: Floats, out: Floats, left: Marks) -> None:
    """Add each row of a matrix to its target row in place.

    Args:
        target_rows: (S,) int64; a source whose target is not a row of `out` is left out.
        source: (S, D) float32, contiguous.
        out: (R, D) float32, contiguous: first the initial terms, then the rounded sums; an element
            that is left keeps its initial term.
        left: (R, D) uint8, contiguous: 1 where the sum is in doubt.
    """
    counts = np.bincount(target_rows[(target_rows >= 0) & (target_rows < len(out))])
    terms = int(counts.max(initial=0)) + 1

    def work(first: int, stop: int) -> None:
        size = (len(out), stop - first)
        states = np.zeros((3, *size)), np.zeros(size, np.uint8)
        _scatter_sums(target_rows, source, *states, out, left, terms, first, stop)

    share(work, source.shape[1], max(1, _GRAIN // max(1, len(source))))


@kernel(
    reads(types.float64, 2),
    reads(types.float64, 1),
    reads(types.float64, 1),
    reads(types.float32, 2, "A"),
    writes(types.float32, 2),
    writes(types.uint8, 2),
    types.int64,
    types.int64,
)
def _decide(
    sums: Doubles,
    rows: Doubles,
    columns: Doubles,
    init: Floats,
    out: Floats,
    doubtful: Marks,
    first: int,
    stop: int,
) -> None:
    for m in range(first, stop):
        for n in range(columns.size):
            bound = rows[m] * columns[n]
            middle = sums[m, n] + np.float64(init[m, n])
            slack = bound + 4 * UNIT * abs(middle)
            low, high = np.float32(middle - slack), np.float32(middle + slack)
            is_zero = low == 0 and (bound != 0 or _is_negative_zero(init[m, n]))
            out[m, n] = low + np.float32(0.0)
            doubtful[m, n] = np.uint8(low != high or is_zero)


@subroutine
def _add(total: float, term: float) -> tuple[float, float]:
    """Return a sum, and its error."""
    after = total + term
    shown = after - total
    return after, (total - (after - shown)) + (term - shown)


@subroutine
def _is_negative_zero(term: float) -> bool:
    return bool(term == 0 and np.copysign(1.0, term) < 0)


@subroutine
def _finish(total: float, errors: float, made: float, terms: int, others: int) -> Any:
    """Return the rounded sum, and 1 if it is in doubt.

    Args:
        total: the sum of the terms.
        errors: the sum of its errors.
        made: the sum of their magnitudes.
        terms: how many terms there are at most.
        others: whether any term is not -0.
    """
    if np.isnan(total):
        return NAN, 0
    if total == 0 and made == 0:
        return np.float32(0.0) if others else np.float32(-0.0), 0
    if made == 0 or np.isinf(total):
        return np.float32(total), 0
    middle = total + errors
    slack = 2 * terms * UNIT * made + 4 * UNIT * abs(middle)
    low, high = np.float32(middle - slack), np.float32(middle + slack)
    return low, int(low != high or low == 0)


@kernel(
    reads(types.float64, 2, "A"),
    reads(types.float64, 2, "A"),
    reads(types.float32, 2, "A"),
    reads(types.int64, 1),
    writes(types.float32, 1),
    writes(types.uint8, 1),
    types.int64,
    types.int64,
)
def _settle_products(
    a: Doubles,
    b: Doubles,
    init: Floats,
    places: Integers,
    out: Floats,
    left: Marks,
    first: int,
    stop: int,
) -> None:
    for p in range(first, stop):
        m, n = places[p] // b.shape[1], places[p] % b.shape[1]
        total, errors, made = np.float64(init[m, n]), 0.0, 0.0
        others = int(not _is_negative_zero(total))
        for k in range(a.shape[1]):
            term = a[m, k] * b[k, n]
            others |= int(not _is_negative_zero(term))
            after, error = _add(total, term)
            total = np.float64(after)
            errors += error
            made += abs(error)
        out[p], left[p] = _finish(total, errors, made, a.shape[1] + 1, others)


@kernel(
    reads(types.float32, 2, "A"),
    reads(types.float32, 1),
    writes(types.float32, 1),
    writes(types.uint8, 1),
    types.int64,
    types.int64,
)
def _sum_rows(x: Floats, init: Floats, out: Floats, left: Marks, first: int, stop: int) -> None:
    totals, errors, made = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    others = np.empty(_LANES, np.uint8)
    for start in range(first, stop, _LANES):
        count = min(_LANES, stop - start)
        for lane in range(count):
            totals[lane] = init[start + lane]
            others[lane] = not _is_negative_zero(totals[lane])
        errors[:] = 0
        made[:] = 0
        for k in range(x.shape[1]):
            for lane in range(count):
                term = np.float64(x[start + lane, k])
                others[lane] |= not _is_negative_zero(term)
                totals[lane], error = _add(totals[lane], term)
                errors[lane] += error
                made[lane] += abs(error)
        for lane in range(count):
            out[start + lane], left[start + lane] = _finish(
                totals[lane], errors[lane], made[lane], x.shape[1] + 1, others[lane]
            )


@kernel(
    reads(types.int64, 1),
    reads(types.float32, 2),
    writes(types.float64, 3),
    writes(types.uint8, 2),
    writes(types.float32, 2),
    writes(types.uint8, 2),
    types.int64,
    types.int64,
    types.int64,
)
def _scatter_sums(
    target: Integers,
    source: Floats,
    state: Doubles,
    others: Marks,
    out: Floats,
    left: Marks,
    terms: int,
    first: int,
    stop: int,
) -> None:
    """Sum the columns from `first` to `stop`; `state` is sums, their errors, and magnitudes."""
    totals, errors, made = state[0], state[1], state[2]
    for row in range(len(out)):
        for column in range(stop - first):
            totals[row, column] = out[row, first + column]
            others[row, column] = not _is_negative_zero(totals[row, column])
    for n in range(target.size):
        row = target[n]
        if 0 <= row < len(out):
            for column in range(stop - first):
                term = np.float64(source[n, first + column])
                others[row, column] |= not _is_negative_zero(term)
                totals[row, column], error = _add(totals[row, column], term)
                errors[row, column] += error
                made[row, column] += abs(error)
    for row in range(len(out)):
        for column in range(stop - first):
            rounded, is_left = _finish(
                totals[row, column],
                errors[row, column],
                made[row, column],
                terms,
                others[row, column],
            )
            left[row, first + column] = is_left
            if not is_left:
                out[row, first + column] = rounded
