"""Kernels that add or assign sources to their targets, in ascending order of the source."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.native.compiled import kernel, reads, writes
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import NAN

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_LINE = 16
"""Columns in a cache line."""

_GRAIN = 2**16
"""Additions that make another thread worth its start."""


def scatter_add_rows(target_rows: Integers, source: Floats, out: Floats) -> None:
    """Add each row of `source` to its target row in place, in ascending order.

    Args:
        target_rows: (N,) int64; a source whose target is not a row of `out` is left out.
        source: (N, D) float32, contiguous.
        out: (rows, D) float32, contiguous.
    """
    grain = _LINE * max(1, _GRAIN // (_LINE * max(1, len(source))))

    def work(first: int, stop: int) -> None:
        _add_rows(target_rows, source, out, first, stop)

    share(work, source.shape[1], grain)


def scatter_assign_flat(target: Integers, source: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """Assign each source to its target in place; of several sources the last one stays.

    Args:
        target: (N,) int64; a source whose target is not an index of `out` is left out.
        source: (N,) of the type of `out`, contiguous; its bits are copied as they are.
        out: (size,) of any type of 1, 4 or 8 bytes, contiguous.
    """
    if source.dtype != out.dtype:
        raise TypeError(f"cannot assign {source.dtype} to {out.dtype}; convert it first")
    word = np.dtype(f"u{out.itemsize}")
    _ASSIGN[out.itemsize](target, source.view(word), out.view(word))


@kernel(
    reads(types.int64, 1),
    reads(types.float32, 2),
    writes(types.float32, 2),
    types.int64,
    types.int64,
)
def _add_rows(target: Integers, source: Floats, out: Floats, first: int, stop: int) -> None:
    """Add up the columns from `first` to `stop`."""
    for n in range(target.size):
        if 0 <= target[n] < len(out):
            addends, sums = source[n, first:stop], out[target[n], first:stop]
            for column in range(sums.size):
                total = sums[column] + addends[column]
                sums[column] = NAN if np.isnan(total) else total


def _assign(target: Integers, source: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    for n in range(target.size):
        if 0 <= target[n] < out.size:
            out[target[n]] = source[n]


_ASSIGN = {
    width: kernel(reads(types.int64, 1), reads(word, 1), writes(word, 1))(_assign)
    for width, word in {1: types.uint8, 2: types.uint16, 4: types.uint32, 8: types.uint64}.items()
}
