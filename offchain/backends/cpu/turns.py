"""Copies of views into arrays: by numpy, or where neighbours change, square by square."""

from collections.abc import Sequence
from math import prod

import numpy as np

from moot.offchain.backends.cpu.kernels.turns import LEAST_SIDE, MOST_LANES, get_turn
from moot.offchain.commitments.tensors import Array
from moot.offchain.native.buffers import get_address
from moot.offchain.native.sequences import Block, Call, Word
from moot.offchain.native.threads import share
from moot.offchain.planning.accesses import Sizes

_LEAST_ELEMENTS = 1 << 10
"""Elements of a copy that are worth machine code of our own."""

_LEAST_MATRIX = 64
"""Elements of a matrix that are worth a place of its own."""

_GRAIN_BYTES = 1 << 19
"""Bytes of the output that make another thread worth its start."""

_HEIGHT = 256
"""Rows of a block whose squares stay in the first cache until their lines are full."""

_PARTS = 8
"""Blocks of the smallest output that is shared out."""


class Turned:
    """The plan of a copy whose axes of neighbours differ between the source and the output.

    Args:
        sizes: the extents of the axes.
        width: the bytes of an element.
        strides: those of the output and of the source, in elements.
        row: the axis along which the output has neighbours.
        column: the axis along which the source has them.

    Attributes:
        grain: how many blocks of rows are worth another thread.
    """

    def __init__(
        self,
        sizes: Sizes,
        width: int,
        strides: tuple[Sequence[int], Sequence[int]],
        row: int,
        column: int,
    ) -> None:
        to, source = strides
        self._sizes = sizes[row], sizes[column]
        self._steps = to[column] * width, source[row] * width
        outer = [axis for axis in range(len(sizes)) if axis not in {row, column}]
        starts = np.zeros((1, 2), np.int64)
        for axis in outer:
            steps = np.array([to[axis], source[axis]]) * width
            moved = np.arange(sizes[axis])[:, None] * steps
            starts = (starts[:, None] + moved).reshape(-1, 2)
        self._starts = np.ascontiguousarray(starts)
        matrices, rows = len(starts), sizes[row]
        parts = -(-_PARTS // matrices)
        self._height = min(_HEIGHT, -(-rows // (parts * MOST_LANES)) * MOST_LANES)
        self._blocks = matrices * -(-rows // self._height)
        self.grain = -(-_GRAIN_BYTES * self._blocks // (prod(sizes) * width))
        self._turn = get_turn(width, *self._sizes)

    def run(self, out: Array, source: Array) -> None:
        """Copy the elements of a view into a view, whose strides are the plan's."""
        to, read, starts = get_address(out), get_address(source), get_address(self._starts)

        def work(first: int, stop: int) -> None:
            part = first, stop
            self._turn.run(to, read, starts, self._sizes, self._steps, self._height, part)

        share(work, self._blocks, self.grain)

    def make_call(self, out: Word, source: Word) -> Call:
        """Return the call that does so, given where the first elements will be."""
        starts = Block(tuple(self._starts.reshape(-1).tolist()))
        places = out, source, starts, *self._sizes, *self._steps, self._height
        return Call(self._turn.address, (*places, 0, self._blocks))


def find_turned(
    sizes: Sizes, width: int, strides: tuple[Sequence[int], Sequence[int]]
) -> Turned | None:
    """Return the plan of a copy square by square, None where numpy's is as good.

    Args:
        sizes: the extents of the axes.
        width: the bytes of an element.
        strides: those of the output and of the source, in elements.
    """
    if prod(sizes) < _LEAST_ELEMENTS:
        return None
    rows, columns = (
        [axis for axis, step in enumerate(own) if step == 1 and sizes[axis] > 1] for own in strides
    )
    if len(rows) != 1 or len(columns) != 1 or rows == columns:
        return None
    (row,), (column,) = rows, columns
    is_large = sizes[row] * sizes[column] >= _LEAST_MATRIX
    if min(sizes[row], sizes[column]) < LEAST_SIDE or not is_large:
        return None
    return Turned(sizes, width, strides, row, column)
