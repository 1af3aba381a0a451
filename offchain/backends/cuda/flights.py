"""Products of warp groups that were begun, on the processor: they come about when waited for.

A product reads its factors when it is begun, and once more when it is waited for, in between of
which they must not change. Its sum is soiled meanwhile.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.emulated import SOIL, find_base
from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.backends.cuda.tensor.blocks import Patterns, Sums, add_chains
from moot.offchain.backends.cuda.warpgroups import (
    GROUP,
    ROWS,
    Await,
    Commit,
    Fence,
    Multiply,
    Order,
    Orders,
    locate,
    read_descriptor,
)

NAN = 0x7FFFFFFF
"""What tensor cores make of all NaNs, which is not what is stored."""

_Elements = Patterns | npt.NDArray[np.int8]
"""Those of a factor: patterns of bfloat16, or bytes."""

_SOILED = int.from_bytes(bytes([SOIL]) * 4)
_WARP = 32


class MisusedError(Exception):
    """A kernel has used asynchronous operations as none may; what a device does then is unknown."""


class _Flight(NamedTuple):
    """A product that was begun.

    Attributes:
        order: the product.
        places: where the elements of both factors are in shared memory, (rows, steps).
        factors: what they were.
    """

    order: Multiply
    places: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    factors: tuple[_Elements, _Elements]


class _Group:
    """A warp group's products.

    Args:
        name: the kernel's.
        base: the address of the start of shared memory.
        seen: shared memory as the asynchronous proxy sees it.
        cells: (threads, cells): those of the group.
        block: what products are added up in, if not as they say.
    """

    def __init__(
        self, name: str, base: int, seen: npt.NDArray[np.uint8], cells: Sums, block: Block | None
    ) -> None:
        self._name, self._base, self._seen, self._cells = name, base, seen, cells
        self._block = block
        self._open: list[_Flight] = []
        self._batches: list[list[_Flight]] = []
        self._sums: dict[int, Sums] = {}
        self.is_fenced = False

    def obey(self, order: Order) -> None:
        """Execute an order by its definition."""
        match order:
            case Fence():
                self.is_fenced = True
            case Multiply():
                self._begin(order)
            case Commit():
                self._batches.append(self._open)
                self._open = []
            case Await():
                while len(self._batches) > order.later:
                    for flight in self._batches.pop(0):
                        self._finish(flight)
                self._land()

    def _begin(self, order: Multiply) -> None:
        sides = zip((ROWS, order.columns), order.is_turned, strict=True)
        pairs = zip(order.descriptors, order.ahead, sides, strict=True)
        first, second = (self._locate(*pair, order.width) for pair in pairs)
        factors = self._read(first, order.width), self._read(second, order.width)
        rows, columns = _locate_sums(order)
        if order.sums not in self._sums:
            sums = np.empty((ROWS, order.columns), np.uint32)
            sums[rows, columns] = self._find_cells(order)
            self._sums[order.sums] = sums
        sums = self._sums[order.sums]
        if sums.shape != (ROWS, order.columns):
            raise MisusedError(f"{self._name}: a sum is added to in two shapes at once")
        if not self.is_fenced:
            sums[:] = _SOILED
        self._find_cells(order)[:] = _SOILED
        self._open.append(_Flight(order, (first, second), factors))

    def _find_cells(self, order: Multiply) -> Sums:
        return self._cells[:, order.sums : order.sums + order.cells]

    def _locate(
        self, cell: int, ahead: int, side: tuple[int, bool], width: int
    ) -> npt.NDArray[np.int64]:
        """Return where a factor's elements are, by the descriptor in two cells."""
        halves = self._cells[:, cell : cell + 2].astype(np.uint64)
        found = {*(halves[:, 0] | halves[:, 1] << np.uint64(_WARP)).tolist()}
        if len(found) > 1:
            raise MisusedError(f"{self._name}: the threads of a warp group differ on a factor")
        rows, is_turned = side
        try:
            descriptor = read_descriptor(found.pop() + ahead // 16)
            places = locate(descriptor, rows, width, is_turned=is_turned) - self._base
        except ValueError as error:
            raise MisusedError(f"{self._name}: {error}") from error
        if places.min() < 0 or places.max() >= len(self._seen):
            raise MisusedError(f"{self._name}: a factor is outside of shared memory")
        return places

    def _read(self, places: npt.NDArray[np.int64], width: int) -> _Elements:
        if width == 1:
            return self._seen.view(np.int8)[places]
        return self._seen.view(np.uint16)[places // width]

    def _finish(self, flight: _Flight) -> None:
        """Add a product to its sum; its factors are what they were."""
        order, (a, b) = flight.order, flight.factors
        for places, factor in zip(flight.places, flight.factors, strict=True):
            if not np.array_equal(self._read(places, order.width), factor):
                raise MisusedError(f"{self._name}: a factor changes while it is multiplied")
        if order.block is None:
            self._sums[order.sums] += (a.astype(np.int32) @ b.astype(np.int32).T).view(np.uint32)
            return
        first, second = np.broadcast_arrays(a[:, None], b[None])
        found = add_chains(self._block or order.block, first, second, self._sums[order.sums])
        found[found == float32.NAN] = NAN
        self._sums[order.sums] = found

    def _land(self) -> None:
        """Give threads the sums to which nothing is being added."""
        flying = {each.order.sums for batch in (*self._batches, self._open) for each in batch}
        for first in {*self._sums} - flying:
            sums = self._sums.pop(first)
            count = sums.size // GROUP
            row, column = _locate_cells(count)
            self._cells[:, first : first + count] = sums[row, column]


def _locate_sums(order: Multiply) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the row and the column of each cell of each thread."""
    return _locate_cells(order.cells)


def _locate_cells(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    thread, cell = np.ogrid[:GROUP, :count]
    group, place = thread % _WARP // 4, thread % 4
    row = thread // _WARP * 16 + group + cell // 2 % 2 * 8
    column = cell // 4 * 8 + place * 2 + cell % 2
    return np.broadcast_to(row, column.shape), column


class Flights:
    """The products of all warp groups of a block.

    Args:
        kernel: the kernel.
        seen: shared memory as the asynchronous proxy sees it.
        cells: (threads, cells, bytes): those of the block.
        block: what products are added up in, if not as the kernel says.
    """

    def __init__(
        self,
        kernel: Kernel,
        seen: npt.NDArray[np.uint8],
        cells: npt.NDArray[np.uint8],
        block: Block | None,
    ) -> None:
        words = cells.view(np.uint32)[..., 0] if cells.size else cells[..., 0].astype(np.uint32)
        count = kernel.threads // GROUP if kernel.has_groups else 0
        self._groups: Sequence[_Group] = [
            _Group(
                kernel.name, find_base(kernel), seen, words[at * GROUP : (at + 1) * GROUP], block
            )
            for at in range(count)
        ]

    def let_threads_run(self) -> None:
        """Let no product see what a phase may do to a sum before the next fence."""
        for group in self._groups:
            group.is_fenced = False

    def obey(self, orders: Orders, rng: Random) -> None:
        """Execute the orders of all groups, one after the other, in an order that is drawn."""
        for group in rng.sample(self._groups, len(self._groups)):
            for order in orders.orders:
                group.obey(order)
