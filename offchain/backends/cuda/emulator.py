"""The emulator: runs kernels on the processor, as loops over the grid, phase by phase.

The order of a block's threads is drawn anew for each phase, and so is that of a graph's launches
for each time that it is launched. Shared memory and cells are soiled before a block begins, and
device memory when it is allocated. So what depends on an order that no barrier or edge makes, or on
memory that nobody has set, has other bits in another run.

Where a kernel has products of warp groups, shared memory is there twice: as threads see it, and
behind that as the asynchronous proxy does.
"""

import ctypes
from collections.abc import Sequence
from functools import cached_property
from heapq import heappop, heappush
from math import gcd
from random import Random

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor.blocks import BLOCKS, Block
from moot.offchain.backends.cuda.emulated import FAULT_BYTES, OWN, SOIL, Fault, list_sizes, write
from moot.offchain.backends.cuda.flights import NAN, Flights, MisusedError
from moot.offchain.backends.cuda.kernel import WARP, Kernel, Loop, Products
from moot.offchain.backends.cuda.machine import HOST, Vertex
from moot.offchain.backends.cuda.tensor.blocks import add_chains
from moot.offchain.backends.cuda.tensor.generations import find_generations
from moot.offchain.backends.cuda.warpgroups import Orders
from moot.offchain.native import native

_CELL_BYTES = 4


class MisalignedError(Exception):
    """A kernel has asked for a vector that begins where none may, which ends it on a device."""


class Emulator:
    """A machine that is none: device memory is the process's, and kernels are loops.

    Args:
        seed: of the orders of threads.
        capability: the compute capability that it stands in for; None for one that has the tensor
            cores of every generation.
        block: what its tensor cores add up, whatever a kernel says; None for what the kernel says.

    Attributes:
        capability: that of a device that computes everything but for blocks.
        generations: the arithmetics of its tensor cores.
    """

    name = "a device that this machine's processor emulates"
    multiprocessors = 4
    place = (HOST, 0)

    def __init__(
        self,
        seed: int = 0,
        capability: tuple[int, int] | None = None,
        block: Block | None = None,
    ) -> None:
        self.capability = capability or (8, 0)
        self.generations = list(BLOCKS) if capability is None else find_generations(capability)
        self._block = block
        self._rng = Random(seed)  # noqa: S311 - orders of threads are no secret
        self._memory: dict[int, npt.NDArray[np.uint8]] = {}
        self._holders: dict[int, int] = {}
        self._spare: dict[tuple[int, int], list[tuple[int, npt.NDArray[np.uint8]]]] = {}
        self._grids: dict[Kernel, Grid] = {}

    def allocate(self, size: int, holder: int = 0) -> int:
        """Return the address of so many bytes, soiled: what the holder had before, or new ones."""
        spare = self._spare.setdefault((size, holder), [])
        if not spare:
            new = np.full(size, SOIL, np.uint8)
            spare.append((new.ctypes.data, new))
        address, memory = heappop(spare)
        self._memory[address], self._holders[address] = memory, holder
        return address

    def release(self, address: int) -> None:
        """Take memory back, soiled, for the holder, or whoever asks for as much without one."""
        memory, holder = self._memory.pop(address), self._holders[address]
        memory[:] = SOIL
        heappush(self._spare[memory.size, holder], (address, memory))

    def upload(self, address: int, content: bytes) -> None:
        """Copy bytes to the device."""
        ctypes.memmove(address, content, len(content))

    def download(self, address: int, size: int) -> bytes:
        """Copy bytes from the device."""
        return ctypes.string_at(address, size)

    def wait(self) -> None:
        """Return: kernels run when they are launched."""

    def get_free_bytes(self) -> int | None:
        """Return None: whatever the process may have."""
        return None

    def load(self, kernel: Kernel) -> "Grid":
        """Make a kernel ready to be launched, once."""
        if kernel not in self._grids:
            self._grids[kernel] = Grid(kernel, self._block)
        return self._grids[kernel]

    def launch(self, loaded: "Grid", blocks: int, parameters: Sequence[int]) -> None:
        """Run a kernel on a grid."""
        loaded.run(blocks, parameters, self._rng)

    def record(self, vertices: Sequence[Vertex]) -> Sequence[Vertex]:
        """Return the launches."""
        return tuple(vertices)

    def replay(self, recorded: Sequence[Vertex]) -> None:
        """Run all of them, in an order that is drawn."""
        for number in draw_order([vertex.after for vertex in recorded], self._rng):
            self.launch(*recorded[number].launch)


class Grid:
    """A kernel as functions that run one phase for all threads of a block.

    Args:
        kernel: the kernel.
        block: what products of bfloat16 are added up in, if not as the kernel says.
    """

    def __init__(self, kernel: Kernel, block: Block | None = None) -> None:
        self._kernel, self._block = kernel, block

    @cached_property
    def _phases(self) -> list[native.Entry | Products | Orders]:
        kernel = self._kernel
        kinds = [ctypes.c_int64] * (kernel.parameters + len(OWN))
        return [
            phase
            if isinstance(phase, Products | Orders)
            else native.load(write(kernel, phase), "phase", *kinds, is_brief=True)
            for phase in kernel.phases
        ]

    def run(self, blocks: int, parameters: Sequence[int], rng: Random) -> None:
        """Run all blocks, one after the other, in an order that is drawn."""
        kernel = self._kernel
        assert len(parameters) == kernel.parameters
        order = list(range(blocks))
        rng.shuffle(order)
        for block in order:
            memory = _Memory(kernel)
            flights = Flights(kernel, memory.seen, memory.cells, self._block)
            waiting = iter(self._phases)
            for step in kernel.steps:
                count = len(step.phases) if isinstance(step, Loop) else 1
                phases = [next(waiting) for _ in range(count)]
                for turn in range(parameters[step.count] if isinstance(step, Loop) else 1):
                    for run in phases:
                        if isinstance(run, Products):
                            multiply(run, memory.cells.view(np.int8), self._block)
                        elif isinstance(run, Orders):
                            flights.obey(run, rng)
                        else:
                            flights.let_threads_run()
                            order_drawn = self._draw_order(rng)
                            run(*parameters, block, turn, *memory.places, *order_drawn)
            memory.require_no_fault()

    def _draw_order(self, rng: Random) -> tuple[int, int]:
        """Return where an order of threads starts, and how far apart those in a row are."""
        threads = self._kernel.threads
        strides = [stride for stride in range(1, threads + 1) if gcd(stride, threads) == 1]
        return rng.randrange(threads), rng.choice(strides)


class _Memory:
    """A block's memory on chip, soiled.

    Attributes:
        cells: (threads, cells, bytes).
        seen: shared memory as the asynchronous proxy sees it.
        places: the addresses that a phase's function is given.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._name, size = kernel.name, kernel.shared_bytes
        images = 1 + kernel.has_groups
        shared, own = (
            np.full(max(count, 1), SOIL, np.uint8)
            for count in (size * images, kernel.own_bytes * kernel.threads)
        )
        copies, barriers = (np.zeros(count, np.uint8) for count in list_sizes(kernel))
        self.cells = np.full((kernel.threads, kernel.cells, _CELL_BYTES), SOIL, np.uint8)
        self.seen = shared[size * (images - 1) : size * images]
        self._arrays = shared, self.cells, own, copies, barriers
        self.places = [array.ctypes.data for array in self._arrays]

    def require_no_fault(self) -> None:
        """Refuse what ends a kernel on a device, or never lets it end."""
        fault = int(self._arrays[-2][-FAULT_BYTES:].view(np.int64)[0])
        if fault == Fault.MISALIGNED:
            raise MisalignedError(self._name)
        if fault:
            raise MisusedError(f"{self._name}: a barrier is waited for whose copies nobody began")


def draw_order(after: Sequence[Sequence[int]], rng: Random) -> list[int]:
    """Return the numbers of a graph's vertices in an order in which each comes after its own."""
    missing = [len(others) for others in after]
    followers: list[list[int]] = [[] for _ in after]
    for number, others in enumerate(after):
        for other in others:
            followers[other].append(number)
    order, ready = list[int](), [number for number, count in enumerate(missing) if not count]
    while ready:
        order.append(ready.pop(rng.randrange(len(ready))))
        for number in followers[order[-1]]:
            missing[number] -= 1
            if not missing[number]:
                ready.append(number)
    return order


def multiply(products: Products, cells: npt.NDArray[np.int8], block: Block | None = None) -> None:
    """Make the products of all warps of a block, by the definition of the instruction.

    Args:
        products: what to multiply.
        cells: (threads, cells, 4): the bytes of all threads' cells.
        block: what products of bfloat16 are added up in, if not as the instruction says.
    """
    size = products.instruction
    warps = cells.reshape(-1, WARP, *cells.shape[1:])
    lanes, four = np.ogrid[:WARP, :_CELL_BYTES]
    group, rest = lanes // 4, lanes % 4
    a, b = (
        np.empty((len(warps), lines, size.depth * size.width), np.int8)
        for lines in (size.rows, size.columns)
    )
    places = [(group + 8 * (j // 2))[:, 0] for j in range(size.cells[2])]
    columns = [(2 * rest + j % 2)[:, 0] for j in range(size.cells[2])]
    for first, second, third in products.places:
        for cell in range(size.cells[0]):
            a[:, group + 8 * (cell % 2), 4 * rest + 16 * (cell // 2) + four] = warps[
                :, :, first + cell
            ]
        for cell in range(size.cells[1]):
            b[:, group, 4 * rest + 16 * cell + four] = warps[:, :, second + cell]
        sums = np.empty((len(warps), size.rows, size.columns), np.int32)
        own = warps.view(np.int32)[:, :, third : third + size.cells[2], 0]
        for cell, at in enumerate(zip(places, columns, strict=True)):
            sums[:, *at] = own[:, :, cell]
        if size.block is None:
            sums += np.matmul(a.astype(np.int32), b.astype(np.int32).swapaxes(1, 2))
        else:
            sums = _add_blocks(block or size.block, a, b, sums)
        for cell, at in enumerate(zip(places, columns, strict=True)):
            own[:, :, cell] = sums[:, *at]


def _add_blocks(
    block: Block, a: npt.NDArray[np.int8], b: npt.NDArray[np.int8], sums: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Return sums, (warps, rows, columns), with blocks of rows of bfloat16 added to them."""
    first, second = (x.view(np.uint16) for x in (a[:, :, None], b[:, None]))
    first, second = np.broadcast_arrays(first, second)
    found = add_chains(block, first, second, sums.view(np.uint32))
    found[found == float32.NAN] = NAN
    return found.view(np.int32)
