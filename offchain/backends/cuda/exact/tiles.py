"""Tiles of products of bytes: how large those of blocks and of warps are, and which one is chosen.

Those of warps are multiplied by `mma.sync`, those of warp groups by `wgmma`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from moot.offchain.backends.cuda.exact.residues import PIECE
from moot.offchain.backends.cuda.kernel import INSTRUCTIONS, WARP, Instruction
from moot.offchain.backends.cuda.tensor import tiles
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.tiles import GroupTile

STEPS_AT_ONCE = 1 << 16
"""The steps whose products 32 bits hold: 2^16 of at most 2^14."""

_STEP_CYCLES = 600
"""About the cycles that a multiprocessor takes for 32 steps of a tile of warps: a product of 4,096
cubed takes 900 on an H200, with what comes before and behind it."""

GROUP_CYCLES: Mapping[GroupTile, float] = {
    replace(tile, width=1): cycles for tile, cycles in tiles.GROUP_CYCLES.items()
}
"""The same for tiles of warp groups, where the device has them: estimates."""

_LEAST_ELEMENTS = 64 * 64
"""Smaller outputs are left to warps: most of what a warp group multiplies would be nobody's."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a block of warps.

    Attributes:
        instruction: what its warps do.
        warps: along rows and columns.
        own: products of a warp along both.
    """

    instruction: Instruction
    warps: tuple[int, int] = (2, 4)
    own: tuple[int, int] = (4, 4)

    depth: ClassVar[int] = PIECE
    """The steps of a part."""

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return WARP * self.warps[0] * self.warps[1]

    @property
    def of_warp(self) -> tuple[int, int]:
        """The rows and columns of a warp."""
        return self.own[0] * self.instruction.rows, self.own[1] * self.instruction.columns

    @property
    def sides(self) -> tuple[int, int]:
        """The rows and columns of a block."""
        rows, columns = self.of_warp
        return self.warps[0] * rows, self.warps[1] * columns


AnyTile = Tile | GroupTile


def list_tiles(capability: tuple[int, int]) -> Sequence[AnyTile]:
    """Return the tiles for devices of a compute capability, that of warps first."""
    instruction = INSTRUCTIONS[max(least for least in INSTRUCTIONS if least <= capability)]
    return [Tile(instruction), *(GROUP_CYCLES if has_groups(capability, None) else ())]


def choose_tile(
    capability: tuple[int, int],
    sides: tuple[int, int],
    steps: int,
    matrices: int,
    multiprocessors: int,
) -> AnyTile:
    """Return the tile of so many products with so many rows, columns and steps.

    Those of warp groups are chosen where the device has them, but for small outputs.
    """
    of_warps, *of_groups = list_tiles(capability)
    if prod(sides) < _LEAST_ELEMENTS:
        return of_warps

    def estimate(tile: AnyTile) -> float:
        blocks = matrices * prod(-(-x // side) for x, side in zip(sides, tile.sides, strict=True))
        cycles = GROUP_CYCLES[tile] if isinstance(tile, GroupTile) else _STEP_CYCLES
        return -(-blocks // multiprocessors) * cycles * -(-steps // tile.depth) * tile.depth

    return min((of_warps, *of_groups), key=estimate)
