"""Tiles of products of bfloat16: how large those of blocks and of warps are, and how deep.

Those of warps are multiplied by `mma.sync`, those of warp groups by `wgmma`, which also multiplies
bytes (`exact/tiles.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol, TypeVar

from moot.offchain.backends.cuda import warpgroups
from moot.offchain.backends.cuda.kernel import COPIED_BYTES, WARP

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""What one instruction multiplies."""

WIDTH = 2
"""Bytes of an element."""

VECTOR = COPIED_BYTES // WIDTH
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


@dataclass(frozen=True, slots=True)
class GroupTile:
    """The tile of a block of warp groups, each of which has 64 rows of it.

    Attributes:
        groups: the warp groups, along rows.
        columns: the columns, all of one product.
        stages: as many parts are multiplied, or on their way to shared memory: three or more,
            since two are being multiplied while the next one is brought.
        width: the bytes of a factor's element.
    """

    groups: int
    columns: int
    stages: int = 4
    width: int = WIDTH

    def __post_init__(self) -> None:
        """Refuse what the kernel does not compute."""
        assert self.stages >= LEAST_STAGES
        assert self.columns in warpgroups.COLUMNS

    @property
    def depth(self) -> int:
        """The steps of a part: a line of a panel."""
        return warpgroups.LINE_BYTES // self.width

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return warpgroups.GROUP * self.groups

    @property
    def sides(self) -> tuple[int, int]:
        """The rows and columns of a block."""
        return self.groups * warpgroups.ROWS, self.columns

    @property
    def part_bytes(self) -> tuple[int, int]:
        """The bytes of a part of each factor: whole panels."""
        rows, columns = (side * warpgroups.LINE_BYTES for side in self.sides)
        return rows, columns


LEAST_STAGES = 3

AnyTile = Tile | GroupTile

Product = tuple[tuple[int, int], int]
"""The rows and columns of a product, and how many such products there are."""

STEP_CYCLES: Mapping[Tile, float] = {
    Tile((2, 4), (4, 8), stages=3): 400,
    Tile((2, 4), (4, 4)): 220,
    Tile((2, 2), (4, 4)): 120,
    Tile((2, 2), (2, 4)): 70,
    Tile((2, 2), (1, 2), depth=64): 30,
}
"""About the cycles that a multiprocessor takes for 16 steps of a block's tile: estimates."""

GROUP_CYCLES: Mapping[GroupTile, float] = {
    GroupTile(2, 256): 290,
    GroupTile(2, 128): 150,
    GroupTile(1, 128): 90,
    GroupTile(1, 64): 50,
}
"""The same for tiles of warp groups, where the device has them. Tensor cores make 2,048 products
a cycle, so 256 cycles are the least for 128 by 256."""

BYTE_CYCLES: Mapping[GroupTile, float] = {
    replace(tile, width=1): cycles for tile, cycles in GROUP_CYCLES.items()
}
"""The same for 32 steps of bytes, of which tensor cores make 4,096 products a cycle."""


class Sized(Protocol):
    """A tile of any kind.

    Attributes:
        sides: the rows and columns of a block.
        depth: the steps of a part.
    """

    @property
    def sides(self) -> tuple[int, int]:
        """Return them."""

    @property
    def depth(self) -> int:
        """Return them."""


_Any = TypeVar("_Any", bound=Sized)


def find_fastest(
    cycles: Mapping[_Any, float], products: Sequence[Product], steps: int, multiprocessors: int
) -> _Any:
    """Return the tile whose waves of blocks are estimated to take least.

    Large ones read less, small ones keep more multiprocessors busy.

    Args:
        cycles: tiles, and what a multiprocessor takes for some steps of them.
        products: the products that are computed at once.
        steps: their steps.
        multiprocessors: how many compute them.
    """
    return min(
        cycles, key=lambda tile: _estimate(tile, cycles[tile], products, steps, multiprocessors)
    )


_CYCLES = dict[AnyTile, float]([*STEP_CYCLES.items(), *GROUP_CYCLES.items()])


def list_tiles(*, has_groups: bool) -> Sequence[AnyTile]:
    """Return the tiles that a device computes, which warp groups of its own may multiply."""
    return [*STEP_CYCLES, *(GROUP_CYCLES if has_groups else ())]


def choose_tile(
    products: Sequence[Product], steps: int, multiprocessors: int, *, has_groups: bool = False
) -> AnyTile:
    """Return the tile of products of so many steps, which are computed at once.

    Those of warp groups are chosen where the device has them and they take less time: not where
    outputs are small.
    """
    cycles = {tile: _CYCLES[tile] for tile in list_tiles(has_groups=has_groups)}
    return find_fastest(cycles, products, steps, multiprocessors)


def estimate_cycles(
    tile: AnyTile, products: Iterable[Product], steps: int, multiprocessors: int
) -> float:
    """Return about how many cycles products take that are computed at once in such tiles."""
    return _estimate(tile, _CYCLES[tile], products, steps, multiprocessors) / DEPTH


def _estimate(
    tile: Sized, cycles: float, products: Iterable[Product], steps: int, multiprocessors: int
) -> float:
    blocks = sum(
        batches * prod(-(-x // side) for x, side in zip(sides, tile.sides, strict=True))
        for sides, batches in products
    )
    depth = -(-steps // tile.depth) * tile.depth
    return -(-blocks // multiprocessors) * cycles * depth
