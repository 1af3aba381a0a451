"""The positions of the largest elements of each row, in order."""

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.native.compiled import kernel, reads, subroutine, writes
from moot.offchain.native.threads import share

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_GRAIN = 2**16
"""Elements that make another thread worth its start."""

_CHUNK = 64
"""Elements that are compared at once with the last of what was found so far."""


def find_largest(x: Floats, count: int) -> Integers:
    """Find the largest elements of each row, the first of equals first, NaN above every number.

    Args:
        x: (R, n) float32, contiguous.
        count: how many, from 1 to n.

    Returns:
        (count, R) int64: the positions of the largest of each row, then those of the next, ...
    """
    assert 1 <= count <= x.shape[1]
    places = np.empty((count, len(x)), np.int64)
    grain = max(1, _GRAIN // x.shape[1])
    share(lambda first, stop: _find(x, places, first, stop), len(x), grain)
    return places


@subroutine
def _is_better(value: float, other: float) -> bool:
    is_better: bool = value > other or (np.isnan(value) and not np.isnan(other))
    return is_better


@subroutine
def _has_better(line: Floats, least: float) -> bool:
    """Whether some are better than a number."""
    found = np.int32(0)
    for place in range(line.size):
        found |= np.int32(0) if line[place] <= least else np.int32(1)
    is_found: bool = found != 0
    return is_found


@subroutine
def _insert(values: Floats, found: Integers, spot: int, value: float, place: int) -> None:
    """Insert an element into a sorted list whose last spot is free."""
    while spot > 0 and _is_better(value, values[spot - 1]):
        values[spot], found[spot] = values[spot - 1], found[spot - 1]
        spot -= 1
    values[spot], found[spot] = value, place


@kernel(reads(types.float32, 2), writes(types.int64, 2), types.int64, types.int64)
def _find(x: Floats, places: Integers, first: int, stop: int) -> None:
    """Find those of the rows from `first` to `stop`; each is inserted behind what is no worse."""
    count = len(places)
    values, found = np.empty(count, np.float32), np.empty(count, np.int64)
    for row in range(first, stop):
        line = x[row]
        for place in range(count):
            _insert(values, found, place, line[place], place)
        start = count
        while start < line.size and not np.isnan(values[count - 1]):
            end = min(start + _CHUNK, line.size)
            if _has_better(line[start:end], values[count - 1]):
                for place in range(start, end):
                    if _is_better(line[place], values[count - 1]):
                        _insert(values, found, count - 1, line[place], place)
            start = end
        for number in range(count):
            places[number, row] = found[number]
