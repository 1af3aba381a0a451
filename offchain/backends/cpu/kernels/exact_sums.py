"""Kernels that find the correctly rounded value of exact sums, whatever the terms are.

They sum by Knuth's two-sum, which finds the error of each addition, and add these errors up: the
exact sum of n terms is within n * 2^-52 * (the sum of the errors' magnitudes) of the pair of both
sums, as in Ogita, Rump and Oishi (2005), and it is known exactly where no error was made. Sums that
this leaves in doubt are added up as integers (`integer_sums.py`): terms that are chosen to be
doubtful cost a few nanoseconds each, and no more.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.backends.cpu.kernels.bounded_sums import UNIT
from moot.offchain.backends.cpu.kernels.integer_sums import LIMBS, begin, deposit, finish
from moot.offchain.native.compiled import kernel, reads, subroutine, writes
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import NAN

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_GRAIN = 2**16
_LANES = 16


def settle_products(a: Doubles, b: Doubles, init: Floats, places: Integers, out: Floats) -> None:
    """Sum some elements of a product anew, more precisely.

    Args:
        a: (M, K) binary64, any strides, and
        b: (K, N) likewise, whose products are exact: of numbers that are float32, or by 1.
        init: (M, N) float32, any strides: the initial terms.
        places: (P,) int64: the elements' places in the product.
        out: (P,) float32: the rounded sums.
    """

    def work(first: int, stop: int) -> None:
        _settle_products(a, b, init, places, out, first, stop)

    share(work, len(places), max(1, _GRAIN // max(1, 8 * a.shape[1])))


def settle_rows(x: Floats, init: Floats, out: Floats) -> None:
    """Sum each row of a matrix more precisely.

    Args:
        x: (M, K) float32, any strides.
        init: (M,) float32: the initial terms.
        out: (M,) float32: the rounded sums.
    """

    def work(first: int, stop: int) -> None:
        _settle_rows(x, init, out, first, stop)

    grain = _LANES * max(1, _GRAIN // (_LANES * max(1, x.shape[1])))
    share(work, len(x), grain)


def scatter_sums(target_rows: Integers, source: Floats, out: Floats) -> None:
    """Add each row of a matrix to its target row in place.

    Args:
        target_rows: (S,) int64; a source whose target is not a row of `out` is left out.
        source: (S, D) float32, contiguous.
        out: (R, D) float32, contiguous: first the initial terms, then the rounded sums.
    """
    inside = np.flatnonzero((target_rows >= 0) & (target_rows < len(out)))
    order = inside[np.argsort(target_rows[inside], kind="stable")]
    rows, starts = np.unique(target_rows[order], return_index=True)
    bounds = np.append(starts, len(order))
    out[np.isnan(out)] = NAN

    def work(first: int, stop: int) -> None:
        state = np.empty((3, out.shape[1]))
        _scatter_sums(rows, bounds, order, source, state, out, first, stop)

    share(work, len(rows), max(1, _GRAIN * len(rows) // max(1, source.size)))


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
    types.int64,
    types.int64,
)
def _settle_products(
    a: Doubles,
    b: Doubles,
    init: Floats,
    places: Integers,
    out: Floats,
    first: int,
    stop: int,
) -> None:
    limbs = np.empty(LIMBS, np.int64)
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
        out[p], is_open = _finish(total, errors, made, a.shape[1] + 1, others)
        if is_open:
            begin(limbs, np.float64(init[m, n]))
            for k in range(a.shape[1]):
                deposit(limbs, k, a[m, k] * b[k, n])
            out[p] = finish(limbs)


@kernel(
    reads(types.float32, 2, "A"),
    reads(types.float32, 1),
    writes(types.float32, 1),
    types.int64,
    types.int64,
)
def _settle_rows(x: Floats, init: Floats, out: Floats, first: int, stop: int) -> None:
    limbs = np.empty(LIMBS, np.int64)
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
            row = start + lane
            out[row], is_open = _finish(
                totals[lane], errors[lane], made[lane], x.shape[1] + 1, others[lane]
            )
            if is_open:
                begin(limbs, np.float64(init[row]))
                for k in range(x.shape[1]):
                    deposit(limbs, k, np.float64(x[row, k]))
                out[row] = finish(limbs)


@kernel(
    *[reads(types.int64, 1)] * 3,
    reads(types.float32, 2),
    writes(types.float64, 2),
    writes(types.float32, 2),
    types.int64,
    types.int64,
)
def _scatter_sums(
    rows: Integers,
    bounds: Integers,
    order: Integers,
    source: Floats,
    state: Doubles,
    out: Floats,
    first: int,
    stop: int,
) -> None:
    """Sum the groups of sources from `first` to `stop`, each of which goes to one row.

    `state` has room for sums, their errors, and the errors' magnitudes.
    """
    totals, errors, made = state[0], state[1], state[2]
    others, limbs = np.empty(totals.size, np.uint8), np.empty(LIMBS, np.int64)
    for group in range(first, stop):
        target = out[rows[group]]
        for column in range(totals.size):
            totals[column] = target[column]
            others[column] = not _is_negative_zero(totals[column])
        errors[:] = 0
        made[:] = 0
        for place in range(bounds[group], bounds[group + 1]):
            addends = source[order[place]]
            for column in range(totals.size):
                term = np.float64(addends[column])
                others[column] |= not _is_negative_zero(term)
                totals[column], error = _add(totals[column], term)
                errors[column] += error
                made[column] += abs(error)
        terms = bounds[group + 1] - bounds[group] + 1
        for column in range(totals.size):
            rounded, is_open = _finish(
                totals[column], errors[column], made[column], terms, others[column]
            )
            if is_open:
                begin(limbs, np.float64(target[column]))
                for place in range(bounds[group], bounds[group + 1]):
                    deposit(limbs, place, np.float64(source[order[place], column]))
                rounded = finish(limbs)
            target[column] = rounded
