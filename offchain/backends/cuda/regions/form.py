"""The forms of regions' kernels: which threads have a row, and where its values are kept."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import prod

from moot.offchain.planning.accesses import Sizes
from moot.offchain.planning.region import Fold, Lanes, Pick, Plan, Region, is_full, is_row
from moot.offchain.programs.graph import Operand

_SLOT_BYTES = 8
"""What a row value takes, whatever its type."""

_COLUMNS_EACH = 4
"""Columns that a thread has at least, where no lanes say how many threads share a row."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a block.

    Attributes:
        threads: as many as it has, unless a row has more lanes.
        row_bytes: what a row may have of shared memory; other values are kept in device memory.
        block_bytes: what rows of one block should have, if they are several.
    """

    threads: int = 256
    row_bytes: int = 40 << 10
    block_bytes: int = 20 << 10


LIMITS = Limits()

MOST_LANES = 1024
"""The threads of the largest block there is, each of which has a lane."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a region's kernel is made of; equal forms share one kernel.

    Attributes:
        region: the values.
        accesses: for each buffer that is read None, or how it is read where strides can't say it:
            an operand, and the extents of the variables that the region's elements are.
        limits: of its blocks.
    """

    region: Region
    accesses: tuple[tuple[Operand, Sizes] | None, ...]
    limits: Limits

    @property
    def is_of_maps(self) -> bool:
        """Whether each element is computed by itself."""
        return not any(isinstance(value, Lanes | Fold | Pick) for value in self.region.values)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return prod(self.region.rows)

    @property
    def elements(self) -> int:
        """The number of elements of a full value."""
        region = self.region
        missing = region.columns - region.last_columns
        return region.segments * self.rows * region.columns - missing


class Layout:
    """How the threads of a block share rows, and where they keep values from pass to pass.

    Args:
        form: the kernel's form.
        apart: values that somebody else keeps.

    Attributes:
        plan: the passes.
        threads_a_row: the threads that share a row: one for each lane, if there are lanes.
        rows_a_block: the rows of a block.
        places: value -> where it is in what each row has of shared memory.
        row_bytes: how much that is.
        spilled: the others that are kept and no output, each in a buffer behind those of outputs.
    """

    def __init__(self, form: Form, apart: Collection[int] = ()) -> None:
        region, limits = form.region, form.limits
        self.plan = Plan(region)
        lanes = {value.lanes for value in region.values if isinstance(value, Lanes)}
        assert len(lanes) <= 1
        self.threads_a_row = next(iter(lanes), min(_share_columns(region), limits.threads))
        self.places: dict[int, int] = {}
        self.spilled: list[int] = []
        self.row_bytes = 0
        outputs = {index for index, _ in region.stores}
        for index, size in self._list_kept(region):
            if index in apart:
                continue
            if self.row_bytes + size <= limits.row_bytes or size == _SLOT_BYTES:
                self.places[index] = self.row_bytes
                self.row_bytes += size
            elif index not in outputs:
                self.spilled.append(index)
        rows = max(1, limits.threads // self.threads_a_row)
        while rows > 1 and rows * self.row_bytes > limits.block_bytes:
            rows //= 2
        self.rows_a_block = rows

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.threads_a_row * self.rows_a_block

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block."""
        return self.row_bytes * self.rows_a_block

    def _list_kept(self, region: Region) -> Iterator[tuple[int, int]]:
        """Yield what is kept from pass to pass, and how many bytes a row has of it."""
        values = region.values
        rows = [i for this in self.plan.passes for i in this.row_values]
        folded = [i for this in self.plan.passes for i in this.folded]
        full = sorted(i for i in self.plan.scratch if is_full(values[i]))
        for index in (*rows, *folded, *full):
            size = count_in_row(region, index) * values[index].dtype.width
            yield index, -(-size // _SLOT_BYTES) * _SLOT_BYTES


def count_in_row(region: Region, index: int) -> int:
    """Return how many elements of a value there are for each row."""
    value = region.values[index]
    if isinstance(value, Lanes):
        return value.lanes
    return 1 if is_row(value) else region.segments * region.columns


def _share_columns(region: Region) -> int:
    """Return how many threads share the columns of a row: a power of two."""
    return 1 << (-(-region.columns // _COLUMNS_EACH) - 1).bit_length()
