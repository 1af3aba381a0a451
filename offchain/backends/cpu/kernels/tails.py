"""The ends of rows behind which a mask holds one constant."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types

from offchain.native.compiled import kernel, reads, writes
from offchain.native.threads import share

Integers = npt.NDArray[np.int64]

_GRAIN = 2**18
"""Elements that make another thread worth its start."""


def find_ends(
    mask: npt.NDArray[Any], starts: Integers, columns: int, constant: int, unit: int
) -> Integers:
    """Find in how many columns of each row a mask is not yet one constant to the end.

    Args:
        mask: elements of 4 bytes or of 1.
        starts: (R,) the place of the first column of each row.
        columns: of a row, a multiple of `unit`.
        constant: the bits of the constant.
        unit: columns that are looked at together.

    Returns:
        (R,) int64: multiples of `unit`.
    """
    ends = np.empty(len(starts), np.int64)
    words = mask.reshape(-1).view(np.uint32 if mask.itemsize == 4 else np.uint8)
    find = _find_words if mask.itemsize == 4 else _find_bytes

    def work(first: int, stop: int) -> None:
        find(words, starts[first:stop], columns, constant, unit, ends[first:stop])

    share(work, len(starts), max(1, _GRAIN // columns))
    return ends


def _find(
    mask: npt.NDArray[Any],
    starts: Integers,
    columns: int,
    constant: int,
    unit: int,
    ends: Integers,
) -> None:
    for row in range(len(starts)):
        end, others = columns, 0
        while end > 0 and others == 0:
            place = starts[row] + end - unit
            part = mask[place : place + unit]
            for i in range(part.size):
                others += part[i] != constant
            end -= unit
        ends[row] = end + unit if others else 0


def _make(element: Any) -> Any:
    sizes = types.int64, element, types.int64
    return kernel(reads(element, 1), reads(types.int64, 1), *sizes, writes(types.int64, 1))(_find)


_find_words, _find_bytes = _make(types.uint32), _make(types.uint8)
