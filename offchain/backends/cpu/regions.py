"""The plans of regions, whose operators one fused kernel computes, one block of rows at a time."""

import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from moot.offchain.backends.cpu.called_plans import CalledGroup
from moot.offchain.backends.cpu.calls import reserve_scratch, share_out, skip
from moot.offchain.backends.cpu.kernels.fused.generate import Kernel, WideKernel, compile_region
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Block, Call, Place, Word
from moot.offchain.native.vectors import LANES
from moot.offchain.planning.assembly import Assembly
from moot.offchain.planning.region import Gathered, Lead, Load, Plan, Region, Value
from moot.offchain.planning.roles import Group

_BLOCK_BYTES = 12 << 10
"""Bytes of a block's rows in all operands and outputs, which stay in a core's first cache."""

_MAX_BLOCK_BYTES = 1 << 18
"""Bytes that a block of a few rows may take, which stay in a core's second cache."""

_FEW_ROWS = 4

_PASSES_OF_ONE_READING = 2
"""The passes where every row is read once, so that no block of rows has to stay in a cache."""

_STREAMED_BYTES = 8 << 20
"""Bytes of an output that a core's share of the caches does not hold until it is read."""

_GRAIN_BYTES = 1 << 20
"""Work that makes another thread worth its start, in bytes moved in the same time."""

_GRAIN_PARTS = 64
"""Vectors of lanes that a thread folds at least: a page of a long row at each step of the lanes,
since processors fetch ahead within a page only. Where a row has no two of these, it is halved."""

_TRANSCENDENTAL_BYTES = 20
"""The cost of a transcendental function of one element, in the same unit."""

_ALIGNMENT = 64


class FusedRegion(CalledGroup):
    """The plan of a region.

    Args:
        group: the operators and the matrix that they are on.
        kept: indices of the members whose outputs are wanted.

    Attributes:
        operands: the accesses to tensors from outside the region.
        region: the values that its kernel computes.
    """

    def __init__(self, group: Group, kept: Collection[int]) -> None:
        wanted = [member for member in group.members if member.index in kept]
        outputs = [(m.node.shape, NUMPY_TYPES[m.node.dtype]) for m in wanted]
        assembly = Assembly(group)
        self._readers = [*map(Reader.of, assembly.readings)]
        super().__init__(self._readers, outputs)
        self.operands = tuple(reader.operand for reader in self._readers)
        first = len(self._readers)
        stores = tuple((assembly.numbers[m.index], first + i) for i, m in enumerate(wanted))
        self._rows = prod(assembly.rows)
        row_bytes = assembly.count_row_bytes([value for value, _ in stores])
        block = self._rows if group.columns is None else _choose_block(row_bytes)
        if group.segments > 1:
            block = 1 << max(1, min(LANES, _MAX_BLOCK_BYTES // row_bytes)).bit_length() - 1
        block = 1 if group.is_wide else min(block, self._rows)
        self.region = Region(
            assembly.rows,
            assembly.columns,
            assembly.last_columns,
            block,
            tuple(assembly.values),
            stores,
            group.is_wide,
            segments=group.segments,
        )
        if block > 1 and len(Plan(self.region).passes) == _PASSES_OF_ONE_READING:
            block = min(max(block, LANES), self._rows)  # whose folds take turns
            self.region = replace(self.region, block=block)
        sizes = [prod(shape) * np.dtype(dtype).itemsize for shape, dtype in outputs]
        self._is_streamed = not group.is_wide and max(sizes) >= _STREAMED_BYTES
        functions = [m.node.function.is_transcendental for m in group.members]
        elements = group.segments * assembly.columns
        self._row_work = row_bytes + elements * sum(functions) * _TRANSCENDENTAL_BYTES
        self._grain = -(-_GRAIN_BYTES // self._row_work)
        if group.columns is not None:
            self._grain = -(-self._grain // self.region.block) * self.region.block

    def allow_cuts(self) -> None:
        """Let each call of the kernel say how many columns are computed, from the first on."""
        self.region = replace(self.region, is_cut=True)

    def allow_lead(self, load: Load) -> None:
        """Let each call of the kernel say how far rows of an operand begin with a constant.

        Two more buffers follow those of operands and outputs, as a region's lead has them.
        """
        first = len(self._readers) + len(self.region.stores)
        lead = Lead(self.region.values.index(load), first, first + 1)
        self.region = replace(self.region, lead=lead)

    def space(self, buffers: Collection[int], pitch: int) -> None:
        """Let rows of some dense buffers lie `pitch` elements apart, in all calls of the kernel."""
        values = tuple(
            replace(
                value,
                row_strides=tuple(s // self.region.columns * pitch for s in value.row_strides),
            )
            if isinstance(value, Load) and value.buffer in buffers
            else value
            for value in self.region.values
        )
        self.region = replace(
            self.region, values=values, pitches=tuple((buffer, pitch) for buffer in buffers)
        )

    @cached_property
    def _begun(self) -> tuple[Region, Sequence[int]]:
        return _begin_buffers(self.region, len(self._readers))

    @cached_property
    def _kernel(self) -> Kernel | WideKernel:
        region, _ = self._begun
        return compile_region(replace(region, is_streamed=self._is_streamed))

    def list_own_calls(
        self, places: Sequence[Word], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the wanted outputs."""
        kernel, begun = self._kernel, map(skip, places, self._begun[1])
        pointers = Block((*begun, *targets))
        if isinstance(kernel, WideKernel):
            scratch = memory.reserve(kernel.scratch_bytes)
            passes = product(range(self._rows), kernel.passes)
            return [
                share_out(
                    Call(kernel.address, (pointers, scratch, row, number, 0, parts)),
                    self._get_grain(parts),
                )
                for row, (number, parts) in passes
            ]
        place, size = reserve_scratch(memory, kernel.scratch_bytes)
        words = pointers, 0, self._rows, place, self.region.columns
        return [share_out(Call(kernel.address, words), self._grain, 1, (3, size))]

    @property
    def kernel(self) -> Kernel:
        """The machine code for any outputs, which stay in the caches, if it is not wide."""
        kernel = compile_region(self.region)
        assert isinstance(kernel, Kernel)
        return kernel

    def read(self, flats: Sequence[Array | None]) -> list[Array | None]:
        """Return the buffers of the operands, None for a tensor that is not there."""
        return [*map(Reader.find_buffer, self._readers, flats)]

    def _get_grain(self, parts: int) -> int:
        """Return how many of a row's parts are worth another thread."""
        least = min(_GRAIN_PARTS, -(-parts // 2))
        return max(-(-_GRAIN_BYTES * parts // self._row_work), least)


def _begin_buffers(region: Region, count: int) -> tuple[Region, Sequence[int]]:
    """Return a region whose buffers begin where it reads them first, and how many bytes later.

    Regions that read other parts of the same tensors, as those of each step of a recurrence do,
    share a kernel then.

    Args:
        region: a region.
        count: how many of its buffers it reads.
    """
    read = [v.source if isinstance(v, Gathered) else v for v in region.values]
    loads = [value for value in read if isinstance(value, Load)]
    least = [min(load.offset for load in loads if load.buffer == n) for n in range(count)]
    widths = {load.buffer: load.dtype.width for load in loads}

    def move(value: Value) -> Value:
        if isinstance(value, Gathered):
            source = replace(value.source, offset=value.source.offset - least[value.source.buffer])
            return replace(value, source=source)
        if isinstance(value, Load):
            return replace(value, offset=value.offset - least[value.buffer])
        return value

    moved = replace(region, values=tuple(map(move, region.values)))
    return moved, [least[number] * widths[number] for number in range(count)]


def _choose_block(row_bytes: int) -> int:
    """Return how many rows to compute together: a power of two, as caches allow."""
    few = max(1, min(_FEW_ROWS, _MAX_BLOCK_BYTES // row_bytes))
    return 1 << max(few, _BLOCK_BYTES // row_bytes).bit_length() - 1


class _Memory(threading.local):
    """A thread's scratch memory, which is kept between calls."""

    def __init__(self) -> None:
        self._bytes = np.zeros(0, np.uint8)
        self._address = self._size = 0

    def reserve(self, size: int) -> int:
        """Return the aligned address of so many bytes."""
        if self._size < size:
            self._bytes, self._size = np.zeros(size + _ALIGNMENT, np.uint8), size
            self._address = -(-buffers.get_address(self._bytes) // _ALIGNMENT) * _ALIGNMENT
        return self._address


_memory = _Memory()


def reserve(size: int) -> int:
    """Return the aligned address of so many bytes, which are the calling thread's."""
    return _memory.reserve(size)
