"""The sums that tensor cores are tried with, and the ways in which a device computes them."""

from collections.abc import Sequence
from functools import cache
from itertools import permutations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.machine import Machine, Tensor
from moot.offchain.backends.cuda.tensor.blocks import Patterns, Sums, add_chains
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.tiles import COLUMNS, DEPTH, AnyTile, GroupTile, Tile
from moot.offchain.commitments.tensors import Array
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row

_STEPS = 2 * DEPTH
"""Terms of a sum: those of two instructions."""

_LARGE, _SMALL = 10, range(-17, -12)
"""Exponents of two numbers that cancel, and of a third that is cut where few bits are kept."""

_LEAST = range(-159, -151)
"""Exponents of products that are cut where zeros have a larger one."""

_SCALE = 2.0**-76
"""One factor of such products."""

_SEED = 25
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

    def make_node(self, layout: str = "rows") -> Node:
        """Return the contraction of factors in a layout."""
        batches, rows, columns = self.before.shape
        terms = self.a.shape[-1]
        sizes = batches, rows, columns, terms
        types = DType.FLOAT32, DType.BFLOAT16, DType.BFLOAT16
        places = (0, 1, 2), (0, 1, 3), (0, 2, 3)
        operands = []
        for place, (dtype, axes) in enumerate(zip(types, places, strict=True)):
            own = [Row(sizes[v] + (layout == "apart" and v == 3), 0, ((v, 1),)) for v in axes]
            if place and layout == "turned":
                own = [own[0], own[2], own[1]]
            operands.append(Operand(Origin.STATE, dtype, place, 0, tuple(own)))
        return Node(Kind.CONTRACT, Function.FMA, types[0], sizes[:3], tuple(operands), sizes[3:])

    def swap(self) -> "Trial":
        """Return the same sums, of which rows are columns and columns rows."""
        return Trial(self.b, self.a, np.ascontiguousarray(self.before.swapaxes(1, 2)))

    def define(self, block: Block) -> Sums:
        """Return the sums by the definition."""
        shape = (*self.before.shape, self.a.shape[-1])
        a, b = (np.broadcast_to(x, shape) for x in (self.a[:, :, None], self.b[:, None]))
        return add_chains(block, a, b, self.before)

    def plan(self, machine: Machine, block: Block, way: "Way") -> Chained:
        """Return the plan of the sums in a way."""
        trial = self.swap() if way.is_swapped else self
        return Chained(machine, trial.make_node(way.layout), block, way.tile)

    def run(self, machine: Machine, plan: Chained, way: "Way") -> Sums:
        """Return the sums as a machine computes them by such a plan."""
        trial = self.swap() if way.is_swapped else self
        factors = [_lay(factor, way.layout) for factor in (trial.a, trial.b)]
        arrays: list[Array] = [trial.before.view(np.float32), *factors]
        tensors = [Tensor(machine, array.shape, array.dtype) for array in arrays]
        for tensor, array in zip(tensors, arrays, strict=True):
            tensor.put(array)
        found = plan.run(tensors, 0).get().view(np.uint32)
        return np.ascontiguousarray(found.swapaxes(1, 2)) if way.is_swapped else found


class Way(NamedTuple):
    """A way in which sums are computed.

    Attributes:
        name: the instruction, and how it is used.
        tile: the tile.
        layout: how factors lie: "rows", "turned", or "apart", where they have to be copied first.
        is_swapped: whether the factors are.
    """

    name: str
    tile: AnyTile
    layout: str = "rows"
    is_swapped: bool = False


WAY = Way("mma.sync", Tile((8, 1), (1, 1), DEPTH))

GROUP_WAYS = (
    Way("wgmma, 64 columns", GroupTile(1, 64)),
    Way("wgmma, 128 columns, factors apart", GroupTile(1, 128), "apart"),
    Way("wgmma, 128 columns, factors turned", GroupTile(2, 128), "turned"),
    Way("wgmma, 256 columns, factors turned", GroupTile(2, 256), "turned", is_swapped=True),
)
"""Every tile of warp groups once, and every layout; a swapped factor has all columns of a tile."""


def list_ways(machine: Machine, block: Block) -> Sequence[Way]:
    """Return the ways in which a machine multiplies, all of which are tried."""
    return [WAY, *(GROUP_WAYS if has_groups(machine.capability, block) else ())]


def _lay(factor: Patterns, layout: str) -> Patterns:
    """Return a factor in a layout."""
    if layout == "apart":
        return np.pad(factor, ((0, 0), (0, 0), (0, 1)))
    return np.ascontiguousarray(factor.swapaxes(1, 2)) if layout == "turned" else factor


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
