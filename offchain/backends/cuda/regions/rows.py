"""Kernels of regions with folds of rows: threads that share a row compute it pass by pass.

Thread t of a row has the columns t, t + threads, ... in this order, which are those of lane t where
values are folded in lanes. So a lane is one chain of folds in one thread. What has an element for
each row is computed by the first thread of the row alone, behind a barrier, and folds of lanes
among it, from the first lane to the last.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cuda.elements import as_integer, read_at, unravel, write
from moot.offchain.backends.cuda.kernel import Context, Kernel, Phase, word
from moot.offchain.backends.cuda.loops import repeat_together
from moot.offchain.backends.cuda.regions.form import Form, Layout, count_in_row
from moot.offchain.backends.cuda.regions.values import Place, Values, number_element
from moot.offchain.native import emit, vectors
from moot.offchain.planning.region import Fold, Lanes, Load, Pick, is_row

_TRUE = ir.Constant(ir.IntType(1), 1)

_TOGETHER, _FEW_VALUES = 4, 48
"""Columns that a thread asks for at once, where a region has so few values."""


def make_rows(form: Form) -> Kernel:
    """Return the kernel.

    Its parameters are the addresses of what is read, of the outputs, and of what is spilled.
    """
    layout = Layout(form)
    parameters = len(form.accesses) + len(form.region.stores) + len(layout.spilled)
    steps: list[Phase] = []
    for stage, this in enumerate(layout.plan.passes):
        if this.folded or this.written:
            steps.append(partial(_compute_columns, form, layout, stage))
        if this.row_values:
            steps.append(partial(_compute_rows, form, layout, stage))
    return Kernel("region_of_rows", parameters, tuple(steps), layout.threads, layout.shared_bytes)


def count_blocks(form: Form) -> int:
    """Return how many blocks compute all rows."""
    return -(-form.rows // Layout(form).rows_a_block)


class RowThread:
    """A thread of a row, and its ways to what is kept of the row.

    Args:
        context: the thread.
        form: the form of the region's kernel.
        layout: how blocks share rows.
        rounds: how often a block's threads have rows, each time the following ones.
        number: which time it is; None for the only one.
    """

    def __init__(
        self,
        context: Context,
        form: Form,
        layout: Layout,
        rounds: int = 1,
        number: ir.Value | None = None,
    ) -> None:
        builder = context.builder
        self.context, self.form, self.layout = context, form, layout
        threads = word(layout.threads_a_row)
        inner = builder.udiv(context.thread, threads)
        if number is not None:
            inner = builder.add(inner, builder.mul(number, word(layout.rows_a_block)))
        self.lane = builder.urem(context.thread, threads)
        first = builder.mul(context.block, word(layout.rows_a_block * rounds))
        self.inner, self.number = inner, builder.add(first, inner)
        self.is_there = builder.icmp_unsigned("<", self.number, word(form.rows))
        self.along = [v.value for v in unravel(context, self.number, form.region.rows)]
        self._shared = builder.mul(inner, word(layout.row_bytes))
        self._outputs = dict(form.region.stores)
        first_spilled = len(form.accesses) + len(form.region.stores)
        self._spilled = {v: first_spilled + i for i, v in enumerate(layout.spilled)}

    def locate(self, column: ir.Value, segment: ir.Value) -> Place:
        """Return a place of the row."""
        return Place(self.number, self.along, column, segment)

    def _find(self, index: int, number: ir.Value) -> ir.Value:
        """The place in shared memory of an element of a value, given its number in the row."""
        builder, dtype = self.context.builder, self.form.region.values[index].dtype
        start = builder.add(self._shared, word(self.layout.places[index]))
        return builder.add(start, builder.mul(number, word(dtype.width)))

    def _number(self, index: int, number: ir.Value) -> ir.Value:
        """The number of an element in a buffer, given its number in the row."""
        builder, region = self.context.builder, self.form.region
        value = region.values[index]
        if is_row(value):
            return self.number
        if isinstance(value, Lanes):
            return builder.add(builder.mul(self.number, word(value.lanes)), number)
        segment, column = word(0), number
        if region.segments > 1:
            columns = word(region.columns)
            segment, column = builder.udiv(number, columns), builder.urem(number, columns)
        return number_element(self.context, self.form, self.locate(column, segment))

    def find_given(self, index: int, number: ir.Value) -> ir.Value | None:  # noqa: ARG002 - all is read by its access
        """Return an element of what is read, if it is not read by its access."""
        return None

    def keep(self, index: int, value: ir.Value, number: ir.Value) -> None:
        """Store an element of a value wherever others look for it."""
        context, dtype = self.context, self.form.region.values[index].dtype
        if index in self.layout.places:
            stored = emit.to_stored(context.builder, dtype, value)
            context.store_shared(stored, self._find(index, number))
        for buffers in (self._spilled, self._outputs):
            if index in buffers:
                address = context.parameters[buffers[index]]
                write(context, dtype, value, address, self._number(index, number))

    def recall(self, index: int, number: ir.Value) -> ir.Value:
        """Return an element that was kept."""
        context, dtype = self.context, self.form.region.values[index].dtype
        if index in self.layout.places:
            kind = ir.VectorType(emit.STORED[dtype], 1)
            stored = context.load_shared(kind, self._find(index, number))
            return emit.from_stored(context.builder, dtype, stored)
        buffer = {**self._outputs, **self._spilled}[index]
        return read_at(context, dtype, context.parameters[buffer], self._number(index, number))


def _compute_columns(form: Form, layout: Layout, stage: int, context: Context) -> None:
    compute_columns(RowThread(context, form, layout), stage)


def compute_columns(row: RowThread, stage: int) -> None:
    """Write the pass of a thread over its columns."""
    with row.context.builder.if_then(row.is_there):
        _ColumnPass(row, stage).write()


class _Column(NamedTuple):
    """A column as a thread computes it.

    Attributes:
        inside: whether there is such a column.
        in_row: its number among the elements of the row.
        values: the values there.
    """

    inside: ir.Value
    in_row: ir.Value
    values: Values


class _ColumnPass:
    """The writer of a pass over a row's columns.

    Args:
        row: the row.
        stage: the number of the pass.
    """

    def __init__(self, row: RowThread, stage: int) -> None:
        self._row, self._stage = row, stage
        self._builder, self._region = row.context.builder, row.form.region
        self._pass = row.layout.plan.passes[stage]
        values = self._region.values
        self._folds = {i: v for i in self._pass.folded if isinstance(v := values[i], Lanes)}
        rows = [i for i in self._pass.reached if is_row(values[i])]
        self._known = {i: row.recall(i, word(0)) for i in rows}
        self._loads = [
            i
            for i in self._pass.reached
            if isinstance(values[i], Load) and not row.layout.plan.is_read(i, stage)
        ]

    def write(self) -> None:
        """Write it: all segments, and the lane's fold of what they have."""
        region, row = self._region, self._row
        steps = -(-region.columns // row.layout.threads_a_row)
        together = _TOGETHER if len(region.values) <= _FEW_VALUES else 1
        state = [emit.constant(fold.dtype, fold.init, 1) for fold in self._folds.values()]

        def fold_segment(segment: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            body = partial(self._step, segment)
            return repeat_together(self._builder, steps, before, together, body)

        if region.segments > 1:
            state = vectors.repeat(self._builder, word(region.segments), state, fold_segment)
        else:
            state = fold_segment(word(0), state)
        for index, value in zip(self._folds, state, strict=True):
            row.keep(index, value, row.lane)

    def _step(
        self, segment: ir.Value, numbers: Sequence[ir.Value], before: list[ir.Value]
    ) -> list[ir.Value]:
        """Compute some columns; beyond the last one, lanes fold what fills them."""
        columns = [self._find_column(segment, number) for number in numbers]
        for column in columns:
            for index in self._loads:
                column.values.get(index)
        state = before
        for column in columns:
            state = self._fold_column(column, state)
        wanted = [[column.values.get(index) for index in self._pass.written] for column in columns]
        for column, values in zip(columns, wanted, strict=True):
            with self._builder.if_then(column.inside):
                for index, value in zip(self._pass.written, values, strict=True):
                    self._row.keep(index, value, column.in_row)
        return state

    def _find_column(self, segment: ir.Value, number: ir.Value) -> "_Column":
        """Return one of the thread's columns, the last one for those beyond it."""
        builder, row, region = self._builder, self._row, self._region
        threads = row.layout.threads_a_row
        column, inside = builder.add(builder.mul(number, word(threads)), row.lane), _TRUE
        if region.columns % threads:
            inside = builder.icmp_unsigned("<", column, word(region.columns))
            column = builder.select(inside, column, word(region.columns - 1))
        place = row.locate(column, segment)
        in_row = builder.add(builder.mul(segment, word(region.columns)), column)
        recall = partial(self._recall, in_row)
        return _Column(inside, in_row, Values(row.context, row.form, place, self._known, recall))

    def _fold_column(self, column: "_Column", before: Sequence[ir.Value]) -> list[ir.Value]:
        """Return the lane's folds after a column."""
        builder, state = self._builder, []
        for fold, total in zip(self._folds.values(), before, strict=True):
            fill = emit.constant(fold.dtype, fold.fill, 1)
            value = builder.select(column.inside, column.values.get(fold.argument), fill)
            state.append(_fold(builder, fold.function, fold.dtype, total, value))
        return state

    def _recall(self, number: ir.Value, index: int) -> ir.Value | None:
        is_kept = self._row.layout.plan.is_read(index, self._stage)
        return self._row.recall(index, number) if is_kept else self._row.find_given(index, number)


def _fold(
    builder: ir.IRBuilder, function: Function, dtype: DType, total: ir.Value, value: ir.Value
) -> ir.Value:
    return emit.emit(builder, function, (dtype, dtype), dtype, (total, value))


def _compute_rows(form: Form, layout: Layout, stage: int, context: Context) -> None:
    compute_rows(RowThread(context, form, layout), stage)


def compute_rows(row: RowThread, stage: int) -> None:
    """Write what the first thread of a row does after a pass over the columns."""
    context, form, layout = row.context, row.form, row.layout
    builder = context.builder
    is_first = builder.icmp_unsigned("==", row.lane, word(0))
    with builder.if_then(builder.and_(row.is_there, is_first)):
        this = layout.plan.passes[stage].row_values
        place = row.locate(word(0), word(0))
        values = Values(context, form, place, {}, partial(_find_row_value, row, stage))
        for index in this:
            row.keep(index, values.get(index), word(0))


def _find_row_value(row: RowThread, stage: int, index: int) -> ir.Value | None:
    """Return a row value of an earlier pass, or what this one folds or picks; None for others."""
    value = row.form.region.values[index]
    if is_row(value) and row.layout.plan.stages[index] < stage:
        return row.recall(index, word(0))
    if isinstance(value, Fold):
        return _fold_row(row, value)
    return _pick(row, stage, value) if isinstance(value, Pick) else None


def _fold_row(row: RowThread, fold: Fold) -> ir.Value:
    """Fold what a row has of lanes or columns, in ascending order."""
    builder, count = row.context.builder, count_in_row(row.form.region, fold.argument)

    def step(number: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
        value = row.recall(fold.argument, number)
        return [_fold(builder, fold.function, fold.dtype, before[0], value)]

    start = emit.constant(fold.dtype, fold.init, 1)
    return vectors.repeat(builder, word(count), [start], step)[0]


def _pick(row: RowThread, stage: int, pick: Pick) -> ir.Value:
    """Compute the element that is picked; it is the fill where there is no such column."""
    context, builder, form = row.context, row.context.builder, row.form
    nowhere = row.locate(word(0), word(0))
    named = Values(context, form, nowhere, {}, partial(_find_row_value, row, stage))
    column = as_integer(context, named.get(pick.column))
    inside = builder.icmp_unsigned("<", column, word(form.region.columns))
    column = builder.select(inside, column, word(0))

    def recall(index: int) -> ir.Value | None:
        if is_row(form.region.values[index]):
            return row.recall(index, word(0))
        return row.recall(index, column) if row.layout.plan.is_read(index, stage) else None

    values = Values(context, form, row.locate(column, word(0)), {}, recall)
    fill = emit.constant(pick.dtype, pick.fill, 1)
    return builder.select(inside, values.get(pick.argument), fill)
