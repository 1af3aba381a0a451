"""The trial of a device's tensor cores, before any of its bits depend on them.

Thousands of matrix instructions are launched on numbers whose sums tell blocks apart: how many
products are added at once and which, how many bits are kept, what zeros do, where sums are cut, and
in which order blocks follow each other. Every sum has to be the definition's.
"""

from functools import cache
from itertools import permutations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.tensor.blocks import BLOCKS, Block
from moot.offchain.backends.cuda.machine import Machine, Tensor
from moot.offchain.backends.cuda.tensor.blocks import Patterns, Sums, add_chains
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.tiles import COLUMNS, DEPTH, Tile
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import DeviceError
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row

_STEPS = 2 * DEPTH
"""Terms of a sum: those of two instructions."""

_LARGE, _SMALL = 10, range(-17, -12)
"""Exponents of two numbers that cancel, and of a third that is cut where few bits are kept."""

_LEAST = range(-159, -151)
"""Exponents of products that are cut where zeros have a larger one."""

_SCALE = 2.0**-76
"""One factor of such products."""

_PAIRS, _KEPT_BITS = (4, 8, 16, 32), range(22, 28)
_PART = 31
"""Blocks that are guessed by one row of so many, where the definition is not computed."""

_TILE = Tile((8, 1), (1, 1), DEPTH)
_SEED = 25
_ELSE = "choose ordered or exact, or the backend cpu"

Floats = npt.NDArray[np.float32]


class Trial(NamedTuple):
    """Sums that are tried: batches of products of matrices.

    Attributes:
        a: (batches, rows, terms): the first factors.
        b: (batches, columns, terms): the second factors, turned.
        before: (batches, rows, columns): what the sums begin with.
    """

    a: Patterns
    b: Patterns
    before: Sums

    @property
    def node(self) -> Node:
        """The contraction."""
        batches, rows, columns = self.before.shape
        sizes = batches, rows, columns, self.a.shape[-1]
        types = DType.FLOAT32, DType.BFLOAT16, DType.BFLOAT16
        operands = tuple(
            Operand(Origin.STATE, dtype, place, 0, tuple(Row(sizes[v], 0, ((v, 1),)) for v in axes))
            for place, (dtype, axes) in enumerate(
                zip(types, ((0, 1, 2), (0, 1, 3), (0, 2, 3)), strict=True)
            )
        )
        return Node(Kind.CONTRACT, Function.FMA, types[0], sizes[:3], operands, sizes[3:])

    def define(self, block: Block) -> Sums:
        """Return the sums by the definition."""
        shape = (*self.before.shape, self.a.shape[-1])
        a, b = (np.broadcast_to(x, shape) for x in (self.a[:, :, None], self.b[:, None]))
        return add_chains(block, a, b, self.before)

    def run(self, machine: Machine, plan: Chained) -> Sums:
        """Return the sums as a machine computes them by a plan of the contraction."""
        arrays: list[Array] = [self.before.view(np.float32), self.a, self.b]
        tensors = [Tensor(machine, array.shape, array.dtype) for array in arrays]
        for tensor, array in zip(tensors, arrays, strict=True):
            tensor.put(array)
        return plan.run(tensors, 0).get().view(np.uint32)


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
    found = trial.run(machine, Chained(machine, trial.node, block, _TILE))
    expected = trial.define(block)
    wrong = int(np.count_nonzero(found != expected))
    if wrong:
        raise DeviceError(
            f"{what} does not compute {arithmetic.name} on its tensor cores: {wrong:,} of "
            f"{found.size:,} sums differ; {describe(trial, found)}; {_ELSE}"
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


@cache
def draw_trial() -> Trial:
    """Return the sums that every device is tried with."""
    rng = np.random.default_rng(_SEED)
    triples = np.array(list(permutations(range(DEPTH), 3)))
    count = len(triples)
    batches = [
        *(_draw_cancelling(triples, small) for small in _SMALL),
        _draw_least(count),
        *(draw_numbers(rng, kind, count) for kind in KINDS),
    ]
    return Trial(*(np.stack(arrays) for arrays in zip(*batches, strict=True)))


Batch = tuple[Patterns, Patterns, Sums]
"""The factors of a batch, (rows, terms) and (columns, terms), and what its sums begin with."""


def _draw_cancelling(triples: npt.NDArray[np.int64], small: int) -> Batch:
    """Return sums of a large number, its negative and a small one, at any places of a block."""
    rows = np.arange(len(triples))
    values = np.zeros((len(rows), 2, DEPTH), np.float32)
    numbers = 2.0**_LARGE, -(2.0**_LARGE), 2.0**small
    for places, number in zip(triples.T, numbers, strict=True):
        values[rows, rows % 2, places] = number
    columns = np.ones((COLUMNS, _STEPS), np.float32)
    columns[1::2] = -1
    columns[4:] *= np.float32(2.0**-30)
    starts = [0, 0, 2.0**_LARGE, 2.0**small, 0, 2.0**-30, -(2.0 ** (_LARGE - 30)), 1]
    before = np.broadcast_to(np.array(starts, np.float32), (len(rows), COLUMNS))
    return shorten(values.reshape(len(rows), _STEPS)), shorten(columns), to_sums(before)


def _draw_least(count: int) -> Batch:
    """Return sums that reach the least positive number if nothing of their terms was cut."""
    cases = list(product(_LEAST, range(_STEPS)))
    values = np.zeros((count, _STEPS), np.float64)
    for row in range(count):
        least, place = cases[row % len(cases)]
        start = place // DEPTH * DEPTH
        values[row, start : start + DEPTH] = 2.0**least
        values[row, place] = 2.0**float32.LEAST_EXPONENT - 4 * 2.0**least
    columns = np.full((COLUMNS, _STEPS), _SCALE)
    columns[1::2] *= -1
    columns[-2:] *= np.array([[0.5], [2]])
    first, second = (x.astype(np.float32) for x in (values / _SCALE, columns))
    return shorten(first), shorten(second), np.zeros((count, COLUMNS), np.uint32)


KINDS = ("bits", "ordinary", "wide", "cancelling", "special")
"""Kinds of numbers that are drawn."""


def draw_numbers(rng: np.random.Generator, kind: str, count: int) -> Batch:
    """Return sums of numbers of a kind, so many rows."""
    shapes = (count, _STEPS), (COLUMNS, _STEPS), (count, COLUMNS)
    if kind == "bits":
        a, b = (
            _make_finite(rng.integers(0, 1 << 16, shape).astype(np.uint16)) for shape in shapes[:2]
        )
        before = rng.integers(0, 1 << 32, shapes[2]).astype(np.uint32)
        is_finite = before & float32.INFINITY != float32.INFINITY
        return a, b, np.where(is_finite, before, before & 1)
    first, second, third = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    if kind == "wide":
        first, second, third = (
            x * np.exp2(rng.integers(-40, 40, x.shape)).astype(np.float32)
            for x in (first, second, third)
        )
    elif kind == "cancelling":
        first[:, 1::2], second[:, 1::2] = first[:, ::2], -second[:, ::2]
        first[:, ::5] *= np.float32(2.0**-12)
    elif kind == "special":
        numbers = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], np.float32)
        for x in (first, second, third):
            is_special = rng.random(x.shape) < 1 / _STEPS
            x[is_special] = rng.choice(numbers, int(is_special.sum()))
    return shorten(first), shorten(second), to_sums(third)


def _make_finite(patterns: Patterns) -> Patterns:
    """Return patterns without infinities and NaNs."""
    is_finite = patterns & 0x7F80 != 0x7F80
    return np.where(is_finite, patterns, patterns & 0xBFFF)


def shorten(values: Floats) -> Patterns:
    """Return the patterns of floats in bfloat16, cut."""
    patterns: Patterns = (values.view(np.uint32) >> 16).astype(np.uint16)
    return patterns


def to_sums(values: Floats) -> Sums:
    """Return the bits of floats, of NaNs the canonical one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return np.where(np.isnan(values), np.uint32(float32.NAN), bits)
