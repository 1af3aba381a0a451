"""The trial of a device's warp groups on bytes, before any of its bits depend on them.

Sums of integers have no order, so that nothing is to be learnt of blocks. What a wrong layout, a
wrong register or a sum that is kept below a limit would show in, is tried: every tile, factors that
are read where they are and such that come in bulk, more parts than are in shared memory at once,
bytes of all values, columns of the extreme ones, and initial values that make sums wrap around.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cuda.machine import Machine, Tensor
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.tiles import BYTE_CYCLES, GroupTile
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import DeviceError
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row

_ROWS, _COLUMNS, _STEPS = 130, 260, 624
"""Two tiles along both sides, and five parts, the last of which has an end in it."""

_LEAST, _MOST = -128, 127
_SEED = 47
Bytes = npt.NDArray[np.int8]
Sums = npt.NDArray[np.int32]


class Way(NamedTuple):
    """A way in which bytes are multiplied.

    Attributes:
        tile: the tile.
        is_apart: whether factors have to be copied, and come in bulk.
    """

    tile: GroupTile
    is_apart: bool

    @property
    def name(self) -> str:
        """What people call it."""
        rows, columns = self.tile.sides
        return f"wgmma of bytes, {rows} x {columns}{', factors apart' * self.is_apart}"


class Sample(NamedTuple):
    """A product that is tried.

    Attributes:
        a: (rows, steps): the first factor.
        b: (columns, steps): the second one, turned.
        before: (rows, columns): what sums begin with.
    """

    a: Bytes
    b: Bytes
    before: Sums

    def define(self) -> Sums:
        """Return the sums by the definition, which wrap around."""
        return self.before + self.a.astype(np.int32) @ self.b.astype(np.int32).T

    def run(self, machine: Machine, way: Way) -> Sums:
        """Return the sums as a machine computes them in a way."""
        a, b = (np.pad(x, ((0, 0), (0, way.is_apart))) for x in (self.a, self.b))
        arrays: list[Array] = [self.before, a, b]
        tensors = [Tensor(machine, array.shape, array.dtype) for array in arrays]
        for tensor, array in zip(tensors, arrays, strict=True):
            tensor.put(array)
        node = make_node(self.before.shape, self.a.shape[1], behind=int(way.is_apart))
        return Chained(machine, node, None, way.tile).run(tensors, 0).get().view(np.int32)


def make_node(shape: tuple[int, ...], steps: int, *, behind: int = 0) -> Node:
    """Return the product of bytes of a shape, whose factors have so many more steps behind."""
    sizes = Row(shape[0], 0, ((0, 1),)), Row(shape[1], 0, ((1, 1),))
    along = Row(steps + behind, 0, ((2, 1),))
    given = (
        (DType.INT32, sizes),
        (DType.INT8, (sizes[0], along)),
        (DType.INT8, (sizes[1], along)),
    )
    operands = (
        Operand(Origin.STATE, dtype, place, 0, rows) for place, (dtype, rows) in enumerate(given)
    )
    return Node(Kind.CONTRACT, Function.FMA, DType.INT32, shape, tuple(operands), (steps,))


@cache
def draw_sample() -> Sample:
    """Return the product that every device is tried with."""
    rng = np.random.default_rng(_SEED)
    a, b = (
        rng.integers(_LEAST, _MOST + 1, (lines, _STEPS)).astype(np.int8)
        for lines in (_ROWS, _COLUMNS)
    )
    for factor in (a, b):
        factor[::7], factor[3::7] = _LEAST, _MOST
    limits = np.iinfo(np.int32)
    before = rng.integers(limits.min, limits.max, (_ROWS, _COLUMNS), np.int32, endpoint=True)
    return Sample(a, b, before)


def list_ways() -> Iterator[Way]:
    """Yield the ways in which warp groups multiply bytes, all of which are tried."""
    return (Way(*pair) for pair in product(BYTE_CYCLES, (False, True)))


def require_bytes(machine: Machine) -> None:
    """Refuse a device whose warp groups do not multiply bytes as it is defined.

    Raises:
        DeviceError: a sum is another one.
    """
    sample = draw_sample()
    expected = sample.define()
    for way in list_ways():
        wrong = int(np.count_nonzero(sample.run(machine, way) != expected))
        if wrong:
            raise DeviceError(
                f"{machine.name} does not multiply bytes as it is defined: {wrong:,} of "
                f"{expected.size:,} sums by {way.name} differ; choose the backend cpu"
            )
