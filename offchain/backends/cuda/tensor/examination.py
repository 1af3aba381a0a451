"""The examination of a device's tensor cores: what they add up beside the definition, for reports.

Unlike the trial it refuses nothing: a device whose blocks are others is examined, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import cycle
from typing import NamedTuple

import numpy as np

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.offchain.backends.cuda.exact.plans import Multiplied
from moot.offchain.backends.cuda.exact.tiles import list_tiles as list_exact_tiles
from moot.offchain.backends.cuda.machine import Machine
from moot.offchain.backends.cuda.tensor.blocks import Patterns, Sums, add_chains
from moot.offchain.backends.cuda.tensor.bytes_trial import draw_sample
from moot.offchain.backends.cuda.tensor.bytes_trial import list_ways as list_byte_ways
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.sums import (
    KINDS,
    Trial,
    Way,
    draw_numbers,
    draw_trial,
    list_ways,
)
from moot.offchain.backends.cuda.tensor.tiles import BYTE_CYCLES, GroupTile, Sized, list_tiles
from moot.offchain.backends.cuda.tensor.trial import describe
from moot.offchain.programs.graph import Node


class Tried(NamedTuple):
    """What the trial's sums are.

    Attributes:
        by: the instruction that adds them up, and how it is used.
        sums: how many there are.
        wrong: how many are not the definition's.
        nearest: which blocks come closest to them, in a few words.
    """

    by: str
    sums: int
    wrong: int
    nearest: str


class Drawn(NamedTuple):
    """What drawn sums are.

    Attributes:
        blocks: the blocks that were added up.
        wrong: how many sums are not the definition's, by kinds of numbers.
    """

    blocks: int
    wrong: Mapping[str, int]


class Examination:
    """The examination of a machine in an arithmetic.

    Args:
        machine: the machine.
        arithmetic: the arithmetic whose definition counts.
        rows: rows of eight sums that are drawn at once.
    """

    def __init__(self, machine: Machine, arithmetic: Arithmetic, rows: int) -> None:
        self._machine, self._block, self._rows = machine, BLOCKS[arithmetic.name], rows
        self._rng = np.random.default_rng(0)

    def try_blocks(self) -> Iterator[Tried]:
        """Yield what the machine makes of the trial's sums, in each way in which it multiplies."""
        trial = draw_trial()
        expected = trial.define(self._block)
        for way in self._ways:
            found = trial.run(self._machine, trial.plan(self._machine, self._block, way), way)
            wrong = np.count_nonzero(found != expected)
            yield Tried(way.name, found.size, int(wrong), describe(trial, found))

    @property
    def _ways(self) -> Sequence[Way]:
        return list_ways(self._machine, self._block)

    def draw(self) -> Drawn:
        """Return what the machine makes of drawn sums, others in another way each time."""
        trial = self._draw()
        way, plan = next(self._turns)
        differs = trial.run(self._machine, plan, way) != trial.define(self._block)
        wrong = {
            kind: int(np.count_nonzero(batch)) for kind, batch in zip(KINDS, differs, strict=True)
        }
        return Drawn(differs.size * trial.a.shape[-1] // self._block.pairs, wrong)

    def _draw(self) -> Trial:
        batches = [draw_numbers(self._rng, kind, self._rows) for kind in KINDS]
        return Trial(*(np.stack(arrays) for arrays in zip(*batches, strict=True)))

    @cached_property
    def _turns(self) -> Iterator[tuple[Way, Chained]]:
        """The ways in turn, and their plans of all sums that are drawn, which have one shape."""
        trial = self._draw()
        return cycle([(way, trial.plan(self._machine, self._block, way)) for way in self._ways])

    def define(self, a: Patterns, b: Patterns) -> Sums:
        """Return products of all rows of two factors, by the definition."""
        behind = -a.shape[1] % self._block.pairs
        a, b = (np.pad(x, ((0, 0), (0, behind))) for x in (a, b))
        first, second = np.broadcast_arrays(a[:, None], b[None])
        return add_chains(self._block, first, second, np.zeros((len(a), len(b)), np.uint32))

    def plan_tiles(self, node: Node) -> Iterator[tuple[str, Chained]]:
        """Yield the plans of a contraction in all tiles, and what they are called."""
        for tile in list_tiles(has_groups=has_groups(self._machine.capability, self._block)):
            name = f"{_describe(tile)}, {tile.stages} parts"
            yield name, Chained(self._machine, node, self._block, tile)

    def try_bytes(self) -> Iterator[Tried]:
        """Yield what the machine makes of the trial's sums of bytes, in each way it has."""
        sample = draw_sample()
        expected = sample.define()
        for way in list_byte_ways() if self._has_bytes else ():
            wrong = np.count_nonzero(sample.run(self._machine, way) != expected)
            yield Tried(way.name, expected.size, int(wrong), "sums of integers")

    @property
    def _has_bytes(self) -> bool:
        return has_groups(self._machine.capability, None)

    def plan_byte_tiles(self, node: Node) -> Iterator[tuple[str, Chained]]:
        """Yield the plans of a contraction of bytes in all tiles, and what they are called."""
        for tile in BYTE_CYCLES if self._has_bytes else ():
            yield _describe(tile), Chained(self._machine, node, None, tile)

    def plan_exact_tiles(self, node: Node) -> Iterator[tuple[str, Multiplied]]:
        """Yield the plans of a contraction in `exact` in all tiles, and what they are called."""
        for tile in list_exact_tiles(self._machine.capability):
            yield _describe(tile), Multiplied(self._machine, node, tile)


def _describe(tile: Sized) -> str:
    """Return the instruction of a tile, its sides and its steps."""
    by = "wgmma" if isinstance(tile, GroupTile) else "mma.sync"
    return f"{by}, {' x '.join(map(str, tile.sides))}, {tile.depth} steps"
