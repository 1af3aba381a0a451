"""What column passes of a fused kernel ask memory for before, and what they keep from caches."""

from math import prod

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cpu.kernels.fused.frame import Frame
from moot.offchain.native import vectors
from moot.offchain.native.machine import get_second_cache_bytes
from moot.offchain.native.vectors import LANES, WORD
from moot.offchain.planning.region import Load, is_full

_SHARE = 4
"""The share of the second-level cache that may hold a block of rows in segments."""

_CHAIN_BYTES = 1 << 10
"""How far ahead memory is asked for where there are transcendental functions: a vector takes them
so many instructions that the processor does not see the next loads by itself."""


class Ahead:
    """The distances from what a pass reads or writes to what is asked for meanwhile.

    No processor foresees what comes after a segment of a row, which is short and far from the next
    one. What is read first, or written, in the same columns of the next block comes meanwhile, or
    that of the next segment where the cache does not hold two blocks.

    Args:
        frame: the kernel's frame.
        stage: the number of the pass.
        segment: the segment that it computes.
        has_chains: whether it computes transcendental functions.
    """

    def __init__(self, frame: Frame, stage: int, segment: ir.Value, *, has_chains: bool) -> None:
        self._frame, self._stage, self._segment = frame, stage, segment
        self._has_chains = has_chains
        self._distances: dict[int, ir.Value] = {}

    def plan_read(self, index: int) -> None:
        """Measure how far ahead of the columns of an operand memory is asked for."""
        frame, load = self._frame, self._frame.region.values[index]
        assert isinstance(load, Load)
        if frame.region.segments == 1:
            if self._is_asked_by_block(index):
                to_block = frame.region.block * load.row_strides[-1]
                self._distances[index] = WORD(to_block * load.dtype.width)
            elif self._has_chains:
                self._distances[index] = WORD(_CHAIN_BYTES)
        elif frame.plan.is_first(index, self._stage):
            self._measure(index, load.row_strides[-1], load.segment_stride)

    def _is_asked_by_block(self, index: int) -> bool:
        """Whether an operand's row of the next block is asked for, in a pass that takes its time.

        That is one that follows another over the same rows, which read them as fast as they come;
        or, where a product wrote them before each block, the first.
        """
        region, is_first = self._frame.region, self._frame.plan.is_first(index, self._stage)
        if region.is_cut:
            return is_first
        return self._has_chains and not is_first and not region.is_wide and bool(region.rows)

    def plan_write(self, index: int) -> None:
        """Measure the same for a full value that is written to an output."""
        region = self._frame.region
        if region.segments > 1:
            self._measure(index, region.columns, prod(region.rows) * region.columns)

    def _measure(self, index: int, row_step: int, segment_step: int) -> None:
        region, builder = self._frame.region, self._frame.builder
        width = region.values[index].dtype.width
        to_block = region.block * row_step
        self._distances[index] = WORD(to_block * width)
        if self._is_large:
            is_last = builder.icmp_signed("==", self._segment, WORD(region.segments - 1))
            to_start = to_block - (region.segments - 1) * segment_step
            steps = WORD(to_start * width), WORD(segment_step * width)
            self._distances[index] = builder.select(is_last, *steps)

    @property
    def _is_large(self) -> bool:
        """Whether a block of rows fills the second-level cache, so that the next has to wait."""
        region = self._frame.region
        read = [v for v in region.values if isinstance(v, Load) and v.column_stride]
        written = [region.values[value] for value, _ in region.stores]
        dense = [*read, *filter(is_full, written)]
        elements = region.segments * region.columns * region.block
        block_bytes = elements * sum(value.dtype.width for value in dense)
        return block_bytes > get_second_cache_bytes() // _SHARE

    def bring(
        self, index: int, place: ir.Value, lanes: int, is_known: ir.Value | None = None
    ) -> None:
        """Ask for what is needed as far behind a vector as is planned, unless it is known."""
        distance = self._distances.get(index)
        if distance is not None:
            if is_known is not None:
                distance = self._frame.builder.select(is_known, WORD(0), distance)
            size = lanes * self._frame.region.values[index].dtype.width
            level = 1 if self._frame.region.segments == 1 else 2
            ahead = self._frame.builder.add(place, distance)
            vectors.prefetch(self._frame.builder, ahead, size, level=level)


def find_streamed(frame: Frame, stage: int, width: int) -> list[int]:
    """Return the written values whose stores go past the caches: vectors of whole rows' lines.

    Where a row begins inside of a line, stores that begin with the next line save nothing.

    Args:
        frame: the kernel's frame.
        stage: the number of the pass that writes.
        width: lanes of its vectors.
    """
    region, plan = frame.region, frame.plan
    lengths = width, region.columns, region.last_columns
    if not region.is_streamed or any(length % LANES for length in lengths):
        return []
    return [
        index
        for index in plan.passes[stage].written
        if index not in plan.scratch
        and region.values[index].dtype is DType.FLOAT32
        and not plan.is_read_again(index, stage)
    ]
