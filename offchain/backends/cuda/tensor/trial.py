"""The trial of a device's tensor cores, before any of its bits depend on them.

Thousands of matrix instructions are launched on numbers whose sums tell blocks apart: how many
products are added at once and which, how many bits are kept, what zeros do, where sums are cut, and
in which order blocks follow each other. Every sum has to be the definition's. Where a device's warp
groups multiply, too, their sums are tried in each of their tiles, and factors in each layout.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.tensor.blocks import BLOCKS, Block
from moot.offchain.backends.cuda.machine import Machine
from moot.offchain.backends.cuda.tensor.blocks import Patterns, Sums
from moot.offchain.backends.cuda.tensor.sums import Trial, draw_trial, list_ways
from moot.offchain.errors import DeviceError

_PAIRS, _KEPT_BITS = (4, 8, 16, 32), range(22, 28)
_PART = 31
"""Blocks that are guessed by one row of so many, where the definition is not computed."""

_ELSE = "choose ordered or exact, or the backend cpu"


def require_blocks(machine: Machine, arithmetic: Arithmetic) -> None:
    """Refuse a device whose tensor cores are not those of an arithmetic, once they were tried.

    Raises:
        DeviceError: it is of another generation, or computes another sum.
    """
    capability = ".".join(map(str, machine.capability))
    what = f"{machine.name} (compute capability {capability})"
    if arithmetic.name not in machine.generations:
        if not machine.generations:
            raise DeviceError(f"{what} has no tensor cores for bfloat16; {_ELSE}")
        (fitting, *_) = machine.generations
        raise DeviceError(
            f"{what} computes {fitting} on its tensor cores, not {arithmetic.name}; choose the "
            f"arithmetic {fitting}, or the backend cpu"
        )
    block, trial = BLOCKS[arithmetic.name], draw_trial()
    expected = trial.define(block)
    for way in list_ways(machine, block):
        found = trial.run(machine, trial.plan(machine, block, way), way)
        wrong = int(np.count_nonzero(found != expected))
        if wrong:
            raise DeviceError(
                f"{what} does not compute {arithmetic.name} on its tensor cores: {wrong:,} of "
                f"{found.size:,} sums by {way.name} differ; {describe(trial, found)}; {_ELSE}"
            )


def describe(trial: Trial, found: Sums) -> str:
    """Return which blocks come closest to what was found, in a few words."""
    wrong, nearest, order = guess(trial, found)
    blocks = f"blocks of {nearest.pairs} products and {nearest.kept_bits} bits, {order}"
    return f"{blocks}, have them" if not wrong else f"{blocks}, come closest"


class Guess(NamedTuple):
    """Blocks that may explain sums.

    Attributes:
        wrong: the number of sums that they do not.
        block: the blocks.
        order: the order of a chain of them, in a word.
    """

    wrong: int
    block: Block
    order: str


def guess(trial: Trial, found: Sums) -> Guess:
    """Return the blocks that explain most of some sums, of many that there might be."""
    some = Trial(trial.a[:, ::_PART], trial.b, trial.before[:, ::_PART])
    sides = {"ascending": some, "descending": some._replace(a=_turn(some.a), b=_turn(some.b))}
    zeros = sorted({block.zero_exponent for block in BLOCKS.values()})
    guesses = []
    for (order, side), *numbers in product(sides.items(), _PAIRS, _KEPT_BITS, zeros):
        block = Block(*numbers)
        wrong = int(np.count_nonzero(side.define(block) != found[:, ::_PART]))
        guesses.append(Guess(wrong, block, order))
    return min(guesses, key=lambda each: each.wrong)


def _turn(patterns: Patterns) -> Patterns:
    return np.ascontiguousarray(patterns[..., ::-1])
