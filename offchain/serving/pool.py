"""Pool: the keys and values of the texts in work, a row for each."""

from collections.abc import Mapping, Sequence

import numpy as np

from moot.offchain.commitments.tensors import Array


class Pool:
    """Keys and values of all layers, each (rows, heads, length, width).

    The rows in use are the first ones, so that a pass over them reads the arrays where they are.

    Args:
        heads: heads and width of each layer.
        rows: how many texts there may be.
        length: positions of each at first.
    """

    def __init__(self, heads: Mapping[int, tuple[int, int]], rows: int, length: int) -> None:
        self._heads, self._rows = tuple(heads.values()), rows
        self.length = length
        self._arrays = self._make(length)

    def _make(self, length: int) -> list[Array]:
        return [
            np.zeros((self._rows, heads, length, width), np.float32)
            for heads, width in self._heads
            for _ in range(2)
        ]

    @property
    def position_bytes(self) -> int:
        """Bytes of one position of a text."""
        return sum(8 * heads * width for heads, width in self._heads)

    def view(self, first: int, count: int) -> list[Array]:
        """Return some rows of all arrays, keys and values of each layer in turn."""
        return [array[first : first + count] for array in self._arrays]

    def write(self, row: int, start: int, made: Sequence[Array], source: int, count: int) -> None:
        """Write the first positions of a chunk's text into a row."""
        assert start + count <= self.length
        for array, new in zip(self._arrays, made, strict=True):
            array[row, :, start : start + count] = new[source, :, :count]

    def read(self, row: int, count: int, length: int | None = None) -> list[Array]:
        """Return copies of a row's first positions, (1, heads, length, width), then zeros."""
        taken: list[Array] = []
        for array in self._arrays:
            shape = array.shape[1], count if length is None else length, array.shape[3]
            copy = np.zeros((1, *shape), np.float32)
            copy[0, :, :count] = array[row, :, :count]
            taken.append(copy)
        return taken

    def move(self, source: int, target: int) -> None:
        """Put a row in the place of another one."""
        for array in self._arrays:
            array[target] = array[source]

    def clear(self, row: int) -> None:
        """Forget what a row has: numbers that are not finite would spoil sums that hide them."""
        for array in self._arrays:
            array[row] = 0

    def resize(self, length: int, rows: int) -> None:
        """Give each row another number of positions; the first rows keep theirs."""
        if length == self.length:
            return
        kept = min(length, self.length)
        before, self._arrays = self._arrays, self._make(length)
        for new, old in zip(self._arrays, before, strict=True):
            new[:rows, :, :kept] = old[:rows, :, :kept]
        self.length = length
