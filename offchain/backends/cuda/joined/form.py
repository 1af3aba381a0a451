"""The form of rows between two products: what a kernel takes for granted, and what lies where."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cuda.factors import Rows
from moot.offchain.backends.cuda.kernel import COPIED_BYTES
from moot.offchain.backends.cuda.regions.form import Form as RegionForm
from moot.offchain.backends.cuda.regions.form import Layout
from moot.offchain.planning.preconditions import Form, Precondition
from moot.offchain.planning.region import Load, Pick, Plan, is_full

FLOAT_BYTES = 4
STAGES = 2
"""Parts of a factor that are in shared memory, or on their way to it."""

MOST_WIDTH = 128
"""The most steps of the first product, and the most columns of the last one."""

_BEHIND_BYTES = 32
"""What lies behind each row of scores, so that neighbouring rows begin in other banks."""


class Area(IntEnum):
    """What areas of shared memory are of, in this order: parts of factors are behind the others."""

    VALUES = 0
    ROWS = 1
    SCORES = 2
    WEIGHTS = 3
    PARTS = 4


class Product(ABC):
    """How products are made, as data: what a form has to know of it.

    The first product of a form is number 0, the last one 1.

    Attributes:
        dtype: the type of all factors.
        vector: the neighbours of a row that the last product takes of what it folds.
    """

    dtype: ClassVar[DType]
    vector: ClassVar[int]

    @abstractmethod
    def count_threads(self, side: int) -> int:
        """Return the threads of a block of so many rows."""

    @abstractmethod
    def fits(self, form: "Joined") -> bool:
        """Whether it multiplies rows of as many steps, and of as many columns in the end."""

    @abstractmethod
    def pad(self, columns: int) -> int:
        """Return the columns that scores and weights have room for."""

    @abstractmethod
    def list_parts(self, form: "Joined") -> tuple[tuple[int, int], tuple[int, int]]:
        """Return for both products the columns and the steps that are brought at a time.

        The last one has no columns where it is none of the kernel's.
        """

    @abstractmethod
    def count_turns(self, form: "Joined") -> tuple[int, ...]:
        """Return how often the loops of the products turn, once if it is the same number."""


@dataclass(frozen=True, slots=True)
class Joined(Form):
    """Rows between two products.

    Attributes:
        rows: the rows of a matrix.
        columns: their columns.
        steps: the steps of the first product.
        width: the columns of the last product, 0 if it is none of the kernel's.
        side: the rows of a block.
        product: how both products are made.
        first: where the rows and the columns of the first product are.
        last: where the rows and the columns of the last one are; its rows are the region's. None if
            the kernel ends with the region.
        starts: the initial values of the products, by their bits; None where they are no constants.
        region: the form of the region's kernel.
        scores: the buffer of the region that is the first product's output.
        middle: the value that the last product folds, if the kernel has one.
        is_stored: whether it is also stored in its buffer.
        block_bytes: the shared memory that a block may have.
    """

    rows: int
    columns: int
    steps: int
    width: int
    side: int
    product: Product
    first: tuple[Rows | None, Rows | None]
    last: tuple[Rows | None, Rows | None] | None
    starts: tuple[int | None, ...]
    region: RegionForm
    scores: int
    middle: int | None
    is_stored: bool
    block_bytes: int

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "seen",
            "all factors are read where they are, and products begin with constants",
            lambda form: None not in (*form.first, *(form.last or ()), *form.starts),
        ),
        Precondition(
            "sides",
            "blocks have rows of one matrix, and products as many steps and columns",
            lambda form: (
                form.rows % form.side == 0
                and form.product.fits(form)
                and max(form.steps, form.width) <= MOST_WIDTH
            ),
        ),
        Precondition(
            "middle",
            "the last product folds whole rows of one value after the other, of the factors' type",
            lambda form: (
                form.last is None
                or (
                    form.region.region.values[form.middle].dtype is form.product.dtype
                    and _is_row_major(form, form.last[0])
                )
            ),
        ),
        Precondition(
            "region",
            "rows are of one segment, their folds have lanes for the threads, nothing is picked",
            lambda form: (
                form.region.region.segments == 1
                and form.region.region.last_columns == form.region.region.columns == form.columns
                and not any(isinstance(value, Pick) for value in form.region.region.values)
                and not form.region.is_of_maps
                and not form.layout.spilled
                and form.layout.threads == form.threads
                and form.side % form.layout.rows_a_block == 0
            ),
        ),
        Precondition(
            "memory",
            "a block's rows are in shared memory",
            lambda form: form.shared_bytes <= form.block_bytes,
        ),
    )

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.product.count_threads(self.side)

    @property
    def layout(self) -> Layout:
        """How a block's threads share rows."""
        apart = () if self.middle is None else (self.middle,)
        return Layout(self.region, {*apart, *self.overlaid})

    @property
    def weights_area(self) -> Area:
        """Where the last product reads what it folds: in the place of scores, if that is free then.

        It is, if they are as wide, and nobody reads a score, or what lies in its place, after the
        pass that stores these weights; in that pass a thread reads what is there before.
        """
        values, plan = self.region.region.values, self._plan
        if self.middle is None:
            return Area.SCORES
        stage = plan.stages[self.middle]
        is_free = values[self.middle].dtype is DType.FLOAT32
        for index in (i for i in range(len(values)) if self.is_score(i) or i in self.overlaid):
            reads = [n for n, passed in enumerate(plan.passes) if index in passed.reached]
            is_free &= max(reads, default=0) <= stage
            is_free &= self.is_score(index) or plan.stages[index] < stage
        return Area.SCORES if is_free else Area.WEIGHTS

    @property
    def _plan(self) -> Plan:
        return Plan(self.region.region)

    @property
    def overlaid(self) -> tuple[int, ...]:
        """The value that is kept in the place of scores, which nobody reads after it, if any is."""
        values, plan = self.region.region.values, self._plan
        reads = [n for n, passed in enumerate(plan.passes) if self.is_score_read(passed.reached)]
        return tuple(
            index
            for index in sorted(plan.scratch)
            if is_full(values[index])
            and index != self.middle
            and values[index].dtype is DType.FLOAT32
            and plan.stages[index] >= max(reads, default=0)
        )[:1]

    def is_score_read(self, reached: Collection[int]) -> bool:
        """Whether scores are among some values."""
        return any(self.is_score(index) for index in reached)

    def is_score(self, index: int) -> bool:
        """Whether a value is a score."""
        value = self.region.region.values[index]
        return isinstance(value, Load) and value.buffer == self.scores

    @property
    def is_turned(self) -> bool:
        """Whether the lines of the first factor are steps."""
        return self.first[0] is not None and self.first[0].is_turned

    @property
    def padded(self) -> int:
        """The columns that scores and weights have room for."""
        return self.product.pad(self.columns)

    @property
    def turns(self) -> tuple[int, ...]:
        """How often the loops of the products turn."""
        return self.product.count_turns(self)

    def get_pitch(self, length: int) -> int:
        """Return the bytes from one line of a factor to the next, given its elements.

        A vector lies between lines, so that no two of them that are read at once need one bank.
        """
        vectors = -(-length * self.product.dtype.width // COPIED_BYTES)
        return (vectors + 1) * COPIED_BYTES

    @property
    def pitches(self) -> tuple[int, int, int, int]:
        """The bytes from one row to the next in each area, or from one step of rows that lie so."""
        return (
            self.layout.row_bytes,
            self.get_pitch(self.side if self.is_turned else self.steps),
            -(-self.padded * FLOAT_BYTES // COPIED_BYTES) * COPIED_BYTES + _BEHIND_BYTES,
            self.get_pitch(self.padded),
        )

    @property
    def places(self) -> tuple[int, int, int, int, int]:
        """Where the areas begin."""
        sizes = (
            -(-self.pitches[Area.VALUES] * self.side // COPIED_BYTES) * COPIED_BYTES,
            self.pitches[Area.ROWS] * (self.steps if self.is_turned else self.side),
            self.pitches[Area.SCORES] * self.side,
            self.pitches[Area.WEIGHTS] * self.side * (self.weights_area is Area.WEIGHTS),
        )
        first, second, third, fourth = (sum(sizes[: place + 1]) for place in range(4))
        return 0, first, second, third, fourth

    @property
    def part_bytes(self) -> int:
        """The bytes of the largest part of a factor, whose lines are columns or steps."""
        return max(
            lines * self.get_pitch(length)
            for part in self.product.list_parts(self)
            for lines, length in (part, part[::-1])
        )

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block."""
        return self.places[-1] + STAGES * self.part_bytes


def _is_row_major(form: Joined, rows: Rows | None) -> bool:
    if rows is None or rows.is_turned or rows.offset or rows.count != form.rows:
        return False
    sizes = form.rows * form.columns, form.columns, 1
    return all(
        [s for s, n in zip(axis.strides, axis.shape, strict=True) if n > 1] in ([], [size])
        for axis, size in zip((rows.batches, rows.lines, rows.steps), sizes, strict=True)
    )
