"""Fused kernels as data: the values computed for each row of a matrix, and the passes.

A region is a set of values on the rows of a matrix. A *full* value has an element for every row and
column, a *row* value one for every row, and a *lanes* value one for every row and lane, where lane
l folds the columns l, l + lanes, l + 2 lanes, ... in this order. Rows are computed block by block,
so that what one pass over the columns leaves for the next one is still in cache. Row pass 0,
column pass 1, row pass 1, column pass 2, ... alternate: a column pass computes full values and
folds them into lanes, a row pass folds lanes and computes row values. Rows may lie in several
*segments*, as a channel does in the images of a batch: a column pass goes through a block's rows in
one segment after another, and lanes go on with the next segment. The rows of a *wide* region are
few and long. They are computed one by one, and threads share the lanes or the columns of each pass.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar, NamedTuple

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.planning.preconditions import Form, Precondition


@dataclass(frozen=True, slots=True)
class Load:
    """An operand from outside: a strided view over the rows' axes and the columns.

    Attributes:
        dtype: its type.
        buffer: which buffer it is in.
        offset: its first element in the buffer.
        row_strides: its strides along the rows' axes, in elements.
        column_stride: its stride along the columns; None for a row value.
        segment_stride: its stride along the segments.
    """

    dtype: DType
    buffer: int
    offset: int
    row_strides: tuple[int, ...]
    column_stride: int | None
    segment_stride: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """One element for all rows and columns, by its bits."""

    dtype: DType
    bits: int


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function of other values, given by their places; a row value or a full one."""

    dtype: DType
    function: Function
    arguments: tuple[int, ...]
    is_row: bool


@dataclass(frozen=True, slots=True)
class Gathered:
    """Elements of an operand from outside, a full value, where indices are its coordinates.

    Attributes:
        dtype: its type.
        source: the operand where all indices are 0; an element is `step` elements further for
            each index, times its value.
        indices: the places of the indices, which are operands from outside, too,
        sizes: the extents of the coordinates, at least 1, and
        steps: the distances of neighbours along them, in elements.
        fill: the element, by its bits, where an index is not from 0 to below its size.
    """

    dtype: DType
    source: Load
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    fill: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """The folds of a full value in lanes; beyond the last column, each last step folds `fill`."""

    dtype: DType
    function: Function
    argument: int
    lanes: int
    init: int
    fill: int


@dataclass(frozen=True, slots=True)
class Fold:
    """A row value: the fold of a lanes value, or of a full one, in ascending order."""

    dtype: DType
    function: Function
    argument: int
    init: int


@dataclass(frozen=True, slots=True)
class Columns:
    """The number of each column, a full value."""

    dtype: DType = DType.INT64


@dataclass(frozen=True, slots=True)
class Pick:
    """A row value: the element of a full value in the column that a row value names.

    Where there is no such column, it is `fill`.
    """

    dtype: DType
    argument: int
    column: int
    fill: int


class Lead(NamedTuple):
    """The first columns of an operand's rows, as far as they hold one constant.

    Attributes:
        value: the place of the operand, whose columns lie side by side.
        counts: the buffer of a number of 64 bits for each row: how many columns these are.
        constant: the buffer of as many constants as a vector has lanes.
    """

    value: int
    counts: int
    constant: int


Value = Load | Constant | Apply | Gathered | Lanes | Fold | Columns | Pick


@dataclass(frozen=True, slots=True)
class Region(Form):
    """The values that a fused kernel computes; equal regions share one kernel.

    Attributes:
        rows: the extents of the rows' axes.
        columns: the number of columns.
        last_columns: the number of columns where the last axis of the rows is at its end, if rows
            are parts of longer ones; otherwise `columns`.
        block: rows that are computed together.
        values: each refers to earlier ones only.
        stores: pairs of a value and the buffer that receives it, row-major.
        is_wide: whether each row is computed apart, in parts; a block is then one row.
        is_cut: whether each call says how many columns it computes, from the first on.
        is_streamed: whether stores of floats go past the caches; its buffers then begin where lines
            of a cache do.
        segments: the segments of each row, all of `columns`. Full values that are stored are
            row-major with the segments as the first axis.
        lead: the lead of an operand's rows, which are not read there; counts of columns are whole
            vectors.
        pitches: pairs of a buffer of full values that is stored to and the elements from one of its
            rows to the next, where that is not the number of columns.
    """

    rows: tuple[int, ...]
    columns: int
    last_columns: int
    block: int
    values: tuple[Value, ...]
    stores: tuple[tuple[int, int], ...]
    is_wide: bool = False
    is_cut: bool = False
    is_streamed: bool = False
    segments: int = 1
    lead: Lead | None = None
    pitches: tuple[tuple[int, int], ...] = ()

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "extents",
            "there are rows, segments and columns, and no row is longer than the others",
            lambda form: (
                min(*form.rows, form.segments, form.last_columns) > 0
                and form.last_columns <= form.columns
            ),
        ),
        Precondition(
            "block",
            "a block has rows, and one if they are wide",
            lambda form: form.block == 1 if form.is_wide else form.block > 0,
        ),
        Precondition(
            "order",
            "each value is made of earlier ones, and each that is stored is there",
            lambda form: (
                all(
                    argument < place
                    for place, value in enumerate(form.values)
                    for argument in get_arguments(value)
                )
                and all(0 <= value < len(form.values) for value, _ in form.stores)
            ),
        ),
        Precondition(
            "gathered",
            "a gather has an index for each coordinate, which has at least one value",
            lambda form: all(
                len(value.indices) == len(value.sizes) == len(value.steps) and min(value.sizes) > 0
                for value in form.values
                if isinstance(value, Gathered)
            ),
        ),
    )


_SIMPLE, _DIVISION, _TRANSCENDENTAL = 1, 8, 24
"""Rough costs of scalar functions, in instructions on a vector."""

_GATHERED = 24
"""The cost of a gather in the same unit."""

_STORED_COST = 6
"""The cost above which a value is kept between passes, and not computed again."""


def is_row(value: Value) -> bool:
    """Whether there is one element for every row."""
    if isinstance(value, Load):
        return value.column_stride is None
    return isinstance(value, Fold | Pick) or (isinstance(value, Apply) and value.is_row)


def is_full(value: Value) -> bool:
    """Whether there is one element for every row and column."""
    return isinstance(value, Load | Apply | Gathered | Columns) and not is_row(value)


def get_arguments(value: Value) -> tuple[int, ...]:
    """Return the places of the values that a value is computed from."""
    if isinstance(value, Apply):
        return value.arguments
    if isinstance(value, Pick):
        return value.argument, value.column
    if isinstance(value, Gathered):
        return value.indices
    return (value.argument,) if isinstance(value, Lanes | Fold) else ()


@dataclass(slots=True)
class Pass:
    """One pass over the columns of a block of rows, and the row pass that follows it.

    Attributes:
        reached: the values that the column pass computes or reads, ascending.
        folded: the lanes values that it computes.
        written: the full values that it stores in scratch or in an output.
        picked: the row values that it picks from full ones.
        row_values: the row values that the row pass computes, ascending.
    """

    reached: list[int] = field(default_factory=list)
    folded: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    picked: list[int] = field(default_factory=list)
    row_values: list[int] = field(default_factory=list)


class Plan:
    """The plan of a region: the pass that computes each value, and the values that are kept.

    Attributes:
        stages: the number of the pass in which each value is computed first.
        scratch: the values that are kept in scratch memory.
        passes: the passes, from number 0, which has no columns.
    """

    def __init__(self, region: Region) -> None:
        self._values = region.values
        self._outputs = {value for value, _ in region.stores}
        self.stages = _find_stages(region.values)
        self._costs = _find_costs(region.values)
        # What is cheap is computed again where rows are long, so that it need not stay near.
        costs, is_long = self._costs, region.segments > 1
        self._kept = {i for i in self._outputs if costs[i] > _STORED_COST or not is_long}
        self.scratch = {i for i, v in enumerate(region.values) if is_row(v) or isinstance(v, Lanes)}
        self.scratch |= {
            v.argument
            for v in region.values
            if isinstance(v, Fold) and is_full(region.values[v.argument])
        }
        self.passes = [Pass() for _ in range(max(self.stages, default=0) + 1)]
        for index in reversed(range(len(self.passes))):
            self._fill(index)

    def cost(self, values: Iterable[int]) -> int:
        """Return roughly how many instructions on a vector some values take."""
        return sum(_own_cost(self._values[i]) for i in values)

    def is_read_again(self, value: int, stage: int) -> bool:
        """Whether a later pass reads what a pass has stored of a full value."""
        return any(
            value in self.passes[later].reached and self.is_read(value, later)
            for later in range(stage + 1, len(self.passes))
        )

    def is_first(self, value: int, stage: int) -> bool:
        """Whether no earlier pass computes or reads a full value."""
        return all(value not in earlier.reached for earlier in self.passes[:stage])

    def is_read(self, value: int, stage: int) -> bool:
        """Whether a pass reads a full value that an earlier one has stored."""
        is_stored = value in self.scratch or value in self._kept
        return is_stored and self.stages[value] < stage

    def _fill(self, stage: int) -> None:
        """Plan a pass; the passes after it have named the values that they need kept."""
        here = [i for i, s in enumerate(self.stages) if s == stage]
        this = self.passes[stage]
        this.row_values = [i for i in here if is_row(self._values[i])]
        if stage == 0:
            return
        this.folded = [i for i in here if isinstance(self._values[i], Lanes)]
        this.written = [
            i
            for i in here
            if is_full(self._values[i]) and (i in self._outputs or i in self.scratch)
        ]
        this.picked = [i for i in here if isinstance(self._values[i], Pick)]
        ends = (get_arguments(self._values[i]) for i in this.folded + this.picked)
        wanted = list(dict.fromkeys([*this.written, *chain.from_iterable(ends)]))
        this.reached = sorted(set(self._reach(wanted, stage)))

    def _reach(self, wanted: Sequence[int], stage: int) -> Iterator[int]:
        waiting, seen = list(wanted), set(wanted)
        while waiting:
            index = waiting.pop()
            yield index
            value = self._values[index]
            if not isinstance(value, Apply | Gathered) or is_row(value):
                continue
            if self.stages[index] < stage and self._costs[index] > _STORED_COST:
                self.scratch |= {index} - self._kept
            if self.is_read(index, stage):
                continue
            waiting += [i for i in get_arguments(value) if i not in seen]
            seen.update(get_arguments(value))


def _find_stages(values: Sequence[Value]) -> list[int]:
    stages: list[int] = []
    for value in values:
        needed = [0]
        for index in get_arguments(value):
            moves_on = is_row(values[index]) and (is_full(value) or isinstance(value, Pick))
            needed.append(stages[index] + moves_on)
        has_columns = is_full(value) or isinstance(value, Lanes | Fold | Pick)
        stages.append(max(*needed, int(has_columns)))
    return stages


def _find_costs(values: Sequence[Value]) -> list[int]:
    """Return roughly what it costs to compute each full value again, but at most a bit too much."""
    costs: list[int] = []
    for value in values:
        full = [costs[i] for i in get_arguments(value) if is_full(values[i])]
        costs.append(min(_own_cost(value) + sum(full), _STORED_COST + 1))
    return costs


def _own_cost(value: Value) -> int:
    if isinstance(value, Gathered):
        return _GATHERED
    if not isinstance(value, Apply):
        return int(isinstance(value, Load) and value.column_stride is not None)
    if value.function.is_transcendental:
        return _TRANSCENDENTAL
    return _DIVISION if value.function in {Function.DIV, Function.SQRT} else _SIMPLE
