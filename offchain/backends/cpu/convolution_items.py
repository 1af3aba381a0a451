"""The cutting of convolutions into items of work, which threads take one after the other.

More items leave less to wait for at the end, but columns are packed again for each part of the
boxes, and the image is read again for each part of the columns.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS, ROWS
from moot.offchain.native.vectors import LANES

_PACKING, _READING = 40, 30
"""Multiply-adds of a vector that cost what it takes to pack one, or to bring one of the image."""

_MOST_SIMULATED = 64
"""Items that are given to threads one by one to see when the last one ends."""

_MOST_PIECES = 128
"""Pieces into which boxes are cut for each part of the columns."""


class Item(NamedTuple):
    """An item of work: columns `first` to `stop` of a group, on the boxes of these numbers."""

    group: int
    first: int
    stop: int
    boxes: range


class Work(NamedTuple):
    """Work: the groups, columns and tiles of a convolution, which are cut into items.

    Attributes:
        groups: how many groups there are, each with columns and boxes of its own.
        columns: the columns of each.
        row_tiles: tiles that cover the rows of each box of a group.
    """

    groups: int
    columns: int
    row_tiles: Sequence[int]


def choose_items(work: Work, threads: int, most_panels: int) -> list[Item]:
    """Return items of work, in the way of cutting that should let all threads end first.

    Args:
        work: what is cut.
        threads: threads that take items.
        most_panels: panels of columns that an item may have.
    """
    panels = -(-work.columns // COLUMNS)
    most = min(panels, max(1, most_panels))
    if threads == 1:
        return _cut_items(work, -(-panels // most), 1)
    shares = {-(-panels // n) for n in range(1, most + 1)}
    powers = range(_MOST_PIECES.bit_length())
    pieces = {min(1 << power, len(work.row_tiles)) for power in powers}
    ways = product(sorted(shares), sorted(pieces))
    return min((_cut_items(work, *way) for way in ways), key=partial(_rate, work, threads))


def _rate(work: Work, threads: int, items: Sequence[Item]) -> float:
    """Return how long items take, in multiply-adds of vectors."""
    costs = [_estimate(work, item) for item in items]
    loads = [sum(costs[:-_MOST_SIMULATED]) / threads] * threads
    for cost in costs[-_MOST_SIMULATED:]:
        loads[loads.index(min(loads))] += cost
    return max(loads) + max(costs) / 4  # as no thread is exactly as fast as another


def _estimate(work: Work, item: Item) -> float:
    """Return the multiply-adds of vectors of an item, and what packing and reading cost."""
    high = sum(work.row_tiles[box] for box in item.boxes) * ROWS
    wide = -(-(item.stop - item.first) // COLUMNS) * COLUMNS / LANES
    return high * wide + _PACKING * wide + _READING * high / LANES


def _cut_items(work: Work, shares: int, pieces: int) -> list[Item]:
    """Return items of so many shares of the columns, and at most so many pieces of the boxes."""
    panels = -(-work.columns // COLUMNS)
    bounds = [COLUMNS * (panels * i // shares) for i in range(shares)]
    ends = np.cumsum(work.row_tiles)
    wanted = ends[-1] * np.arange(1, pieces) / pieces
    cuts = [0, *(1 + np.searchsorted(ends, wanted)).tolist(), len(ends)]
    runs = [range(first, stop) for first, stop in pairwise(cuts) if first < stop]
    return [
        Item(group, first, stop, run)
        for group in range(work.groups)
        for first, stop in pairwise((*bounds, work.columns))
        for run in runs
    ]
