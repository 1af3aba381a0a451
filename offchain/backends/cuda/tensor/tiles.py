"""Tiles of products of bfloat16: how large those of blocks and of warps are, and how deep."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from moot.offchain.backends.cuda.kernel import WARP

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""What one instruction multiplies."""

WIDTH = 2
"""Bytes of an element."""

VECTOR = 8
"""Elements that a thread moves at once."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a block.

    Attributes:
        warps: along rows and columns.
        own: products of a warp along both.
        depth: the steps that are multiplied at a time.
        stages: as many such parts are in shared memory, or on their way to it.
    """

    warps: tuple[int, int]
    own: tuple[int, int]
    depth: int = 32
    stages: int = 4

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return WARP * prod(self.warps)

    @property
    def of_warp(self) -> tuple[int, int]:
        """The rows and columns of a warp."""
        return self.own[0] * ROWS, self.own[1] * COLUMNS

    @property
    def sides(self) -> tuple[int, int]:
        """The rows and columns of a block."""
        rows, columns = self.of_warp
        return self.warps[0] * rows, self.warps[1] * columns

    def count_lines(self, axis: int, *, is_turned: bool) -> tuple[int, int]:
        """Return the lines of a factor in shared memory, and the elements of each.

        Lines are rows, or if the factor is turned, steps.
        """
        side = self.sides[axis]
        return (self.depth, side) if is_turned else (side, self.depth)

    def count_bytes(self, axis: int, *, is_turned: bool) -> int:
        """Return the bytes of a factor in shared memory."""
        lines, length = self.count_lines(axis, is_turned=is_turned)
        return lines * get_pitch(length)


def get_pitch(length: int) -> int:
    """Return the bytes from one line to the next in shared memory, given its elements.

    A vector lies between lines, so that no two rows of a matrix need one bank.
    """
    return (length + VECTOR) * WIDTH


STEP_CYCLES: Mapping[Tile, float] = {
    Tile((2, 4), (4, 8), stages=3): 400,
    Tile((2, 4), (4, 4)): 220,
    Tile((2, 2), (4, 4)): 120,
    Tile((2, 2), (2, 4)): 70,
    Tile((2, 2), (1, 2), depth=64): 30,
}
"""About the cycles that a multiprocessor takes for 16 steps of a block's tile: estimates."""


def choose_tile(sides: tuple[int, int], batches: int, multiprocessors: int) -> Tile:
    """Return the tile of products with so many rows and columns.

    Large ones read less, small ones keep more multiprocessors busy.
    """

    def estimate(tile: Tile) -> float:
        blocks = batches * prod(-(-x // side) for x, side in zip(sides, tile.sides, strict=True))
        return -(-blocks // multiprocessors) * STEP_CYCLES[tile]

    return min(STEP_CYCLES, key=estimate)
