"""The emulator: runs kernels on the processor, as loops over the grid, phase by phase.

The order of a block's threads is drawn anew for each phase. Shared memory and cells are soiled
before a block begins, and device memory when it is allocated. So a kernel that depends on an order
that no barrier makes, or on memory that nobody has set, has other bits in another run.
"""

import ctypes
from collections.abc import Sequence
from functools import cached_property
from math import gcd
from random import Random

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor.blocks import BLOCKS, Block
from moot.offchain.backends.cuda.kernel import (
    COPIED_BYTES,
    WARP,
    Context,
    Copy,
    Kernel,
    Locate,
    Loop,
    Phase,
    Products,
    word,
)
from moot.offchain.backends.cuda.machine import HOST, Launch
from moot.offchain.backends.cuda.tensor.blocks import add_chains
from moot.offchain.backends.cuda.tensor.generations import find_generations
from moot.offchain.native import native, vectors
from moot.offchain.native.vectors import FLOAT, WORD

_SOIL = 0xA5
_CELL_BYTES = 4
_NAN = 0x7FFFFFFF
"""What tensor cores make of all NaNs, which is not what is stored."""

_RECORD_BYTES = 24
"""A copy that was begun: its address, its offset, and whether there is anything to copy."""

_FAULT_BYTES = 8
"""Behind all records: whether a vector was asked for that begins where none may."""

_OWN = ("block", "turn", "shared", "cells", "own", "copies", "start", "stride")
"""The parameters of a phase's function, after those of the kernel."""


_COPIED = ir.IntType(8 * COPIED_BYTES)


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
        self._memory: dict[int, np.ndarray[tuple[int], np.dtype[np.uint8]]] = {}
        self._grids: dict[Kernel, Grid] = {}

    def allocate(self, size: int, holder: int = 0) -> int:  # noqa: ARG002 - all is new
        """Return the address of so many bytes, soiled."""
        memory = np.full(size, _SOIL, np.uint8)
        self._memory[memory.ctypes.data] = memory
        return memory.ctypes.data

    def release(self, address: int) -> None:
        """Give memory back, soiled."""
        self._memory.pop(address)[:] = _SOIL

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

    def record(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        """Return the launches."""
        return tuple(launches)

    def replay(self, recorded: Sequence[Launch]) -> None:
        """Run all of them."""
        for launch in recorded:
            self.launch(*launch)


class Grid:
    """A kernel as functions that run one phase for all threads of a block.

    Args:
        kernel: the kernel.
        block: what products of bfloat16 are added up in, if not as the kernel says.
    """

    def __init__(self, kernel: Kernel, block: Block | None = None) -> None:
        self._kernel, self._block = kernel, block

    @cached_property
    def _phases(self) -> list[native.Entry | Products]:
        kernel = self._kernel
        kinds = [ctypes.c_int64] * (kernel.parameters + len(_OWN))
        return [
            phase
            if isinstance(phase, Products)
            else native.load(_write(kernel, phase), "phase", *kinds, is_brief=True)
            for phase in kernel.phases
        ]

    def run(self, blocks: int, parameters: Sequence[int], rng: Random) -> None:
        """Run all blocks, one after the other, in an order that is drawn."""
        kernel = self._kernel
        assert len(parameters) == kernel.parameters
        order = list(range(blocks))
        rng.shuffle(order)
        for block in order:
            shared, own = (
                np.full(max(size, 1), _SOIL, np.uint8)
                for size in (kernel.shared_bytes, kernel.own_bytes * kernel.threads)
            )
            copies = np.zeros(_count_bytes(kernel) * kernel.threads + _FAULT_BYTES, np.uint8)
            cells = np.full((kernel.threads, kernel.cells, _CELL_BYTES), _SOIL, np.uint8)
            places = [x.ctypes.data for x in (shared, cells, own, copies)]
            waiting = iter(self._phases)
            for step in kernel.steps:
                count = len(step.phases) if isinstance(step, Loop) else 1
                phases = [next(waiting) for _ in range(count)]
                for turn in range(parameters[step.count] if isinstance(step, Loop) else 1):
                    for run in phases:
                        if isinstance(run, Products):
                            multiply(run, cells.view(np.int8), self._block)
                        else:
                            run(*parameters, block, turn, *places, *self._draw_order(rng))
            if copies[-_FAULT_BYTES:].any():
                raise MisalignedError(kernel.name)

    def _draw_order(self, rng: Random) -> tuple[int, int]:
        """Return where an order of threads starts, and how far apart those in a row are."""
        threads = self._kernel.threads
        strides = [stride for stride in range(1, threads + 1) if gcd(stride, threads) == 1]
        return rng.randrange(threads), rng.choice(strides)


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
    found[found == float32.NAN] = _NAN
    return found.view(np.int32)


class _OnProcessor(Context):
    """A thread on the processor."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        parameters: Sequence[ir.Value],
        own: dict[str, ir.Value],
        thread: ir.Value,
        kernel: Kernel,
    ) -> None:
        self.builder, self.parameters, self.thread = builder, parameters, thread
        self.block, self.turn, self._shared = own["block"], own["turn"], own["shared"]
        self._copies_each = kernel.copies
        self._fault = builder.add(own["copies"], word(_count_bytes(kernel) * kernel.threads))
        sizes = {
            "cells": kernel.cells * _CELL_BYTES,
            "own": kernel.own_bytes,
            "copies": _count_bytes(kernel),
        }
        self._cells, self._own, self._copies = (
            builder.add(own[name], builder.mul(thread, word(size))) for name, size in sizes.items()
        )

    def load(self, kind: ir.Type, address: ir.Value, *, is_given: bool = False) -> ir.Value:  # noqa: ARG002 - phases are loops, whose loads come in turn
        return vectors.load(self.builder, kind, address)

    def store(self, value: ir.Value, address: ir.Value) -> None:
        vectors.store(self.builder, value, address)

    def load_shared(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        return vectors.load(self.builder, kind, self.builder.add(self._shared, offset))

    def store_shared(self, value: ir.Value, offset: ir.Value) -> None:
        vectors.store(self.builder, value, self.builder.add(self._shared, offset))

    def _require_aligned(self, *places: ir.Value) -> None:
        """Report an address or an offset that is no multiple of 16."""
        builder = self.builder
        for place in places:
            behind = builder.and_(place, word(COPIED_BYTES - 1))
            with builder.if_then(builder.icmp_unsigned("!=", behind, word(0))):
                vectors.store(builder, word(1), self._fault)

    def load_matrices(self, count: int, locate: Locate, *, is_turned: bool) -> list[ir.Value]:
        """Load matrices as it is defined, whose rows have to begin where vectors may."""

        def locate_aligned(matrix: ir.Value, row: ir.Value) -> ir.Value:
            place = locate(matrix, row)
            self._require_aligned(place)
            return place

        return super().load_matrices(count, locate_aligned, is_turned=is_turned)

    def _list_records(self, ticket: ir.Value) -> list[ir.Value]:
        """Return the addresses of the records of a group of copies."""
        builder = self.builder
        group = builder.mul(ticket, word(self._copies_each * _RECORD_BYTES))
        first = builder.add(self._copies, group)
        return [builder.add(first, word(n * _RECORD_BYTES)) for n in range(self._copies_each)]

    def begin_copies(self, copies: Sequence[Copy], ticket: ir.Value) -> None:
        """Write down what is to be copied, and soil the place where nobody may look any more."""
        builder = self.builder
        soil = ir.Constant(_COPIED, int.from_bytes(bytes([_SOIL]) * COPIED_BYTES))
        for record, copy in zip(self._list_records(ticket), copies, strict=True):
            self._require_aligned(copy.address, copy.offset)
            is_there = word(1) if copy.is_there is None else builder.zext(copy.is_there, WORD)
            for place, value in enumerate((copy.address, copy.offset, is_there)):
                vectors.store(builder, value, record, 8 * place)
            self.store_shared(soil, copy.offset)

    def end_copies(self, ticket: ir.Value, later: int) -> None:  # noqa: ARG002 - groups have tickets
        """Copy what was written down, if anything was."""
        builder = self.builder
        for record in self._list_records(ticket):
            address, offset, there = (vectors.load(builder, WORD, record, 8 * n) for n in range(3))
            with builder.if_then(builder.icmp_unsigned("!=", address, word(0))):
                value = vectors.load(builder, _COPIED, address)
                is_there = builder.icmp_unsigned("!=", there, word(0))
                self.store_shared(builder.select(is_there, value, _COPIED(0)), offset)

    def load_own(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        return vectors.load(self.builder, kind, self.builder.add(self._own, offset))

    def store_own(self, value: ir.Value, offset: ir.Value) -> None:
        vectors.store(self.builder, value, self.builder.add(self._own, offset))

    def get_cell(self, number: int, kind: ir.Type = FLOAT) -> ir.Value:
        return vectors.load(self.builder, kind, self._cells, number * _CELL_BYTES)

    def set_cell(self, number: int, value: ir.Value) -> None:
        vectors.store(self.builder, value, self._cells, number * _CELL_BYTES)


def _count_bytes(kernel: Kernel) -> int:
    """Return the bytes of the records of a thread's copies."""
    return kernel.groups * kernel.copies * _RECORD_BYTES


def _write(kernel: Kernel, phase: Phase) -> ir.Module:
    """Return a module with the loop of a block's threads over a phase."""
    module = ir.Module()
    kinds = [WORD] * (kernel.parameters + len(_OWN))
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "phase")
    builder = ir.IRBuilder(function.append_basic_block())
    parameters, last = function.args[: kernel.parameters], function.args[kernel.parameters :]
    own = dict(zip(_OWN, last, strict=True))

    def run(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        place = builder.add(own["start"], builder.mul(number, own["stride"]))
        thread = builder.urem(place, word(kernel.threads))
        phase(_OnProcessor(builder, parameters, own, thread, kernel))
        return []

    vectors.repeat(builder, word(kernel.threads), [], run)
    builder.ret_void()
    return module
