"""The positions of the largest elements of each row, in order."""

import numpy as np
import numpy.typing as npt
from numba.core import types

from offchain.native.compiled import kernel, reads, writes
from offchain.native.threads import share

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_GRAIN = 2**16
"""Elements that make another thread worth its start."""


def find_largest(x: Floats, count: int) -> Integers:
    """Find the largest elements of each row, the first of equals first, NaN above every number.

    Args:
        x: (R, n) float32, contiguous.
        count: how many, from 1 to n.

    Returns:
        (count, R) int64: the positions of the largest of each row, then those of the next, ...
    """
    places = np.empty((count, len(x)), np.int64)
    grain = max(1, _GRAIN // x.shape[1])
    share(lambda first, stop: _find(x, places, first, stop), len(x), grain)
    return places


@kernel(reads(types.float32, 2), writes(types.int64, 2), types.int64, types.int64)
def _find(x: Floats, places: Integers, first: int, stop: int) -> None:
    """Find those of the rows from `first` to `stop`; each is inserted behind what is no worse."""
    count = len(places)
    values, found = np.empty(count, np.float32), np.empty(count, np.int64)
    for row in range(first, stop):
        line = x[row]
        held = 0
        for place in range(line.size):
            value = line[place]
            if held == count:
                last = values[count - 1]
                if not (value > last or (np.isnan(value) and not np.isnan(last))):
                    continue
                spot = count - 1
            else:
                spot = held
                held += 1
            while spot > 0:
                before = values[spot - 1]
                if not (value > before or (np.isnan(value) and not np.isnan(before))):
                    break
                values[spot], found[spot] = before, found[spot - 1]
                spot -= 1
            values[spot], found[spot] = value, place
        for number in range(count):
            places[number, row] = found[number]
