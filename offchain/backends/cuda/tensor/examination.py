"""The examination of a device's tensor cores: what they add up beside the definition, for reports.

Unlike the trial it refuses nothing: a device whose blocks are others is examined, too.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.offchain.backends.cuda.machine import Machine
from moot.offchain.backends.cuda.tensor.blocks import Patterns, Sums, add_chains
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.tiles import STEP_CYCLES
from moot.offchain.backends.cuda.tensor.trial import (
    KINDS,
    Trial,
    describe,
    draw_numbers,
    draw_trial,
)
from moot.offchain.programs.graph import Node


class Tried(NamedTuple):
    """What the trial's sums are.

    Attributes:
        sums: how many there are.
        wrong: how many are not the definition's.
        nearest: which blocks come closest to them, in a few words.
    """

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

    def try_blocks(self) -> Tried:
        """Return what the machine makes of the trial's sums."""
        trial = draw_trial()
        found = trial.run(self._machine, Chained(self._machine, trial.node, self._block))
        wrong = np.count_nonzero(found != trial.define(self._block))
        return Tried(found.size, int(wrong), describe(trial, found))

    def draw(self) -> Drawn:
        """Return what the machine makes of sums that are drawn, others each time."""
        trial = self._draw()
        differs = trial.run(self._machine, self._plan) != trial.define(self._block)
        wrong = {
            kind: int(np.count_nonzero(batch)) for kind, batch in zip(KINDS, differs, strict=True)
        }
        return Drawn(differs.size * trial.a.shape[-1] // self._block.pairs, wrong)

    def _draw(self) -> Trial:
        batches = [draw_numbers(self._rng, kind, self._rows) for kind in KINDS]
        return Trial(*(np.stack(arrays) for arrays in zip(*batches, strict=True)))

    @cached_property
    def _plan(self) -> Chained:
        """The plan of all sums that are drawn, which have one shape."""
        return Chained(self._machine, self._draw().node, self._block)

    def define(self, a: Patterns, b: Patterns) -> Sums:
        """Return products of all rows of two factors, by the definition."""
        behind = -a.shape[1] % self._block.pairs
        a, b = (np.pad(x, ((0, 0), (0, behind))) for x in (a, b))
        first, second = np.broadcast_arrays(a[:, None], b[None])
        return add_chains(self._block, first, second, np.zeros((len(a), len(b)), np.uint32))

    def plan_tiles(self, node: Node) -> Iterator[tuple[str, Chained]]:
        """Yield the plans of a contraction in all tiles, and what they are called."""
        for tile in STEP_CYCLES:
            sides = " x ".join(map(str, tile.sides))
            name = f"{sides}, {tile.depth} steps, {tile.stages} parts"
            yield name, Chained(self._machine, node, self._block, tile)
