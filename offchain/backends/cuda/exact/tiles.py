"""Tiles of products of bytes: how large those of blocks and of warps are, and which one is chosen.

Those of warps are multiplied by `mma.sync`, those of warp groups by `wgmma`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from moot.offchain.backends.cuda.exact.residues import PIECE
from moot.offchain.backends.cuda.kernel import INSTRUCTIONS, WARP, Instruction
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.tiles import BYTE_CYCLES, GroupTile, find_fastest

STEPS_AT_ONCE = 1 << 16
"""The steps whose products 32 bits hold: 2^16 of at most 2^14."""

_STEP_CYCLES = 600
"""About the cycles that a multiprocessor takes for 32 steps of a tile of warps: a product of 4,096
cubed takes 900 on an H200, with what comes before and behind it."""

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


def list_tiles(capability: tuple[int, int]) -> Mapping[AnyTile, float]:
    """Return the tiles for devices of a compute capability, that of warps first, and their cycles.

    Those of 32 steps, all estimated.
    """
    instruction = INSTRUCTIONS[max(least for least in INSTRUCTIONS if least <= capability)]
    of_groups = BYTE_CYCLES.items() if has_groups(capability, None) else ()
    return dict[AnyTile, float]([(Tile(instruction), _STEP_CYCLES), *of_groups])


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
    every = list_tiles(capability)
    if prod(sides) < _LEAST_ELEMENTS:
        return next(iter(every))
    return find_fastest(every, [(sides, matrices)], steps, multiprocessors)
