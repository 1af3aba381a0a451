"""Tiles of contractions: which variables are rows and columns, and how large a block's tile is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from moot.offchain.backends.cuda.kernel import WARP
from moot.offchain.planning.accesses import coalesce, estimate_strides, get_used
from moot.offchain.programs.graph import Node

VECTOR = 4
"""Elements that a thread reads from shared memory at once."""

WARP_SIDES = 4, 8
"""Threads of a warp along rows and columns of a tile."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Sizes of tiles.

    Attributes:
        threads: the threads of a block along rows and columns.
        own: the elements of a thread along both.
        depth: the steps that are in shared memory at a time.
    """

    threads: tuple[int, int]
    own: tuple[int, int] = (8, 8)
    depth: int = 16

    @property
    def sides(self) -> tuple[int, int]:
        """The rows and columns of a block's tile."""
        (rows, columns), (own_rows, own_columns) = self.threads, self.own
        return rows * own_rows, columns * own_columns

    @property
    def pitches(self) -> tuple[int, int]:
        """How far apart the steps of both factors are in shared memory, in elements.

        Neighbouring steps are in other banks, and vectors begin where vectors have to.
        """
        rows, columns = (-(-side // VECTOR) * VECTOR + VECTOR for side in self.sides)
        return rows, columns

    @property
    def warps_across(self) -> int | None:
        """Warps side by side, where a warp is 4 by 8 threads; None where it is in no such form."""
        is_whole = all(n % side == 0 for n, side in zip(self.threads, WARP_SIDES, strict=True))
        return self.threads[1] // WARP_SIDES[1] if is_whole else None


STEP_CYCLES: Mapping[Tiling, float] = {
    Tiling((8, 16)): 82,
    Tiling((8, 8)): 42,
    Tiling((8, 16), (4, 4)): 30,
    Tiling((8, 8), (4, 4)): 17,
    Tiling((8, 8), (4, 4), depth=32): 17,
    Tiling((8, 16), (2, 2), depth=64): 15,
    Tiling((8, 8), (2, 2), depth=128): 8,
    Tiling((8, 8), (1, 1), depth=128): 5,
}
"""Cycles that a multiprocessor takes for a step of a block's tile, as an H200 did.

It was measured with 16 steps in shared memory at a time. The last two are estimates.
"""

_WAIT_CYCLES, _REST_CYCLES = 1000, 320
"""Cycles until the next steps are there, and those of them that one block alone can't hide."""

_OWN_CYCLES = 1.6
"""Cycles from a step to the next one for each element of a thread, which waits for its factors."""

_SECTOR_BYTES, _MOST_SECTORS = 32, 3
"""What is read from memory at least, and how many times as much of it is read along steps."""

CYCLE_BYTES = 21
"""Bytes of memory for a multiprocessor in a cycle: an H200 has 4.8 TB/s for 132 at 1.75 GHz."""

LAUNCH_CYCLES = 4000
"""About the cycles from the last blocks of a launch to the first of the next one's: an estimate."""

LANES = 128
"""Instructions, of a thread each, that a multiprocessor begins in a cycle."""

_LEAST_SIDE = min(min(tiling.sides) for tiling in STEP_CYCLES)


@dataclass(frozen=True, slots=True)
class Split:
    """The variables of an output: those that only one factor depends on, and the others.

    Attributes:
        rows: those that the second factor does not depend on.
        columns: the others that the first does not depend on.
        batch: what is left.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    batch: tuple[int, ...]


def find_split(node: Node) -> Split:
    """Return which variables of a contraction are those of rows and of columns."""
    sizes, variables = node.shape + node.fold_shape, range(len(node.shape))
    first, second = (set(get_used(operand, sizes)) for operand in node.operands[1:])
    rows = tuple(v for v in variables if v not in second)
    columns = tuple(v for v in variables if v in second and v not in first)
    return Split(rows, columns, tuple(v for v in variables if v not in rows + columns))


def count_sides(node: Node) -> tuple[int, int, int]:
    """Return the rows, the columns and the batches of a contraction."""
    split = find_split(node)
    groups = split.rows, split.columns, split.batch
    rows, columns, batches = (prod(node.shape[v] for v in group) for group in groups)
    return rows, columns, batches


def count_tiles(node: Node, tiling: Tiling) -> tuple[int, int, int]:
    """Return the tiles along rows and columns, and the batches."""
    rows, columns, batches = count_sides(node)
    return -(-rows // tiling.sides[0]), -(-columns // tiling.sides[1]), batches


def count_blocks(node: Node, tiling: Tiling) -> int:
    """Return the number of blocks that have the output."""
    return prod(count_tiles(node, tiling))


def reads_along_lines(node: Node, axis: int) -> bool:
    """Whether the neighbours of a factor's element are in other rows or columns, not steps.

    A thread that reads along steps has few of them, and finds each but once; so lines have to be
    in far fewer sectors of memory.
    """
    split, sizes, operand = find_split(node), node.shape + node.fold_shape, node.operands[1 + axis]
    strides = estimate_strides(operand.rows, sizes)
    lines, steps = (split.rows, split.columns)[axis], range(len(node.shape), len(sizes))
    sectors = (
        _count_sectors(
            [sizes[v] for v in variables],
            [abs(strides[v]) * operand.dtype.width for v in variables],
        )
        for variables in (lines, steps)
    )
    return _MOST_SECTORS * next(sectors) < next(sectors)


def _count_sectors(sizes: Sequence[int], strides: Sequence[int]) -> float:
    """Return in about how many sectors of memory an element of a warp's is, at most in one.

    Args:
        sizes: of the variables that neighbours differ in.
        strides: theirs, in bytes.
    """
    merged, (steps,) = coalesce(tuple(sizes), [strides])
    count = min(merged[-1], WARP)
    return max(1, min(count, -(-count * steps[-1] // _SECTOR_BYTES))) / count


def choose_tiling(node: Node, multiprocessors: int) -> Tiling | None:
    """Return the tiles of a contraction, None where its rows or columns are too few for any.

    Large ones read less, small ones keep more multiprocessors busy.
    """
    if min(count_sides(node)[:2]) < _LEAST_SIDE:
        return None
    return min(STEP_CYCLES, key=lambda tiling: estimate_step(node, tiling, multiprocessors))


def estimate_cycles(node: Node, multiprocessors: int) -> float:
    """Return about how many cycles a contraction takes in the tiles that are the fastest."""
    steps = (estimate_step(node, tiling, multiprocessors) for tiling in STEP_CYCLES)
    return node.fold_length * min(steps)


def estimate_step(node: Node, tiling: Tiling, multiprocessors: int) -> float:
    """Return about how many cycles a step of all tiles takes."""
    blocks = -(-count_blocks(node, tiling) // multiprocessors)
    busy = blocks * STEP_CYCLES[tiling] + _REST_CYCLES / tiling.depth / blocks
    return max(busy, _WAIT_CYCLES / tiling.depth, _OWN_CYCLES * prod(tiling.own))
