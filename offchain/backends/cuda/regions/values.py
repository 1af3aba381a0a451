"""The values of a region as one thread computes them, at one place of its matrix."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from llvmlite import ir

from moot.offchain.backends.cuda.elements import as_integer, read, read_at, unravel
from moot.offchain.backends.cuda.kernel import Context, word
from moot.offchain.backends.cuda.regions.form import Form
from moot.offchain.native import emit, vectors
from moot.offchain.planning.region import Apply, Columns, Constant, Gathered, Load

Recall = Callable[[int], ir.Value | None]
"""Returns a value, given its number, if it is kept and need not be computed."""


class Place(NamedTuple):
    """A place of a region's matrix.

    Attributes:
        row: the number of the row.
        along: its coordinates along the rows' axes.
        column: the number of the column.
        segment: the number of the segment.
    """

    row: ir.Value
    along: Sequence[ir.Value]
    column: ir.Value
    segment: ir.Value


class Values:
    """The values at one place, each computed once.

    Args:
        context: the thread.
        form: the form of the region's kernel.
        place: the place.
        known: values that are there.
        recall: how to find others that are kept.
    """

    def __init__(
        self,
        context: Context,
        form: Form,
        place: Place,
        known: Mapping[int, ir.Value],
        recall: Recall,
    ) -> None:
        self._context, self._form, self._place = context, form, place
        self._found, self._recall = dict(known), recall

    def get(self, index: int) -> ir.Value:
        """Return a value in one lane."""
        if index not in self._found:
            found = self._recall(index)
            self._found[index] = self._compute(index) if found is None else found
        return self._found[index]

    def _compute(self, index: int) -> ir.Value:
        values = self._form.region.values
        value = values[index]
        if isinstance(value, Constant):
            return emit.constant(value.dtype, value.bits, 1)
        if isinstance(value, Load):
            return self._load(value)
        if isinstance(value, Columns):
            return vectors.splat(self._context.builder, self._place.column, 1)
        if isinstance(value, Gathered):
            return self._gather(value)
        assert isinstance(value, Apply)
        types = [values[i].dtype for i in value.arguments]
        arguments = [self.get(i) for i in value.arguments]
        builder = self._context.builder
        return emit.emit(builder, value.function, types, value.dtype, arguments)

    def _load(self, load: Load) -> ir.Value:
        context, access = self._context, self._form.accesses[load.buffer]
        address = context.parameters[load.buffer]
        if access is None:
            return read_at(context, load.dtype, address, self._locate(load), is_given=True)
        operand, sizes = access
        number = (
            self._place.row
            if load.column_stride is None
            else number_element(context, self._form, self._place)
        )
        return read(context, operand, unravel(context, number, sizes), address)

    def _locate(self, load: Load) -> ir.Value:
        """The element of a buffer that is read."""
        builder, place = self._context.builder, self._place
        found: ir.Value = word(load.offset)
        steps = [*zip(place.along, load.row_strides, strict=True)]
        steps += [(place.column, load.column_stride or 0), (place.segment, load.segment_stride)]
        for number, stride in steps:
            if stride:
                found = builder.add(found, builder.mul(number, word(stride)))
        return found

    def _gather(self, value: Gathered) -> ir.Value:
        """The element that indices name, or the fill."""
        context, builder = self._context, self._context.builder
        linear: ir.Value = word(0)
        inside: ir.Value = ir.Constant(ir.IntType(1), 1)
        for index, size, step in zip(value.indices, value.sizes, value.steps, strict=True):
            number = as_integer(context, self.get(index))
            inside = builder.and_(inside, builder.icmp_unsigned("<", number, word(size)))
            linear = builder.add(linear, builder.mul(number, word(step)))
        linear = builder.select(inside, linear, word(0))
        at = builder.add(self._locate(value.source), linear)
        address = context.parameters[value.source.buffer]
        found = read_at(context, value.dtype, address, at, is_given=True)
        return builder.select(inside, found, emit.constant(value.dtype, value.fill, 1))


def number_element(context: Context, form: Form, place: Place) -> ir.Value:
    """Return the number of an element in the region's row-major domain."""
    builder = context.builder
    row = builder.add(builder.mul(place.segment, word(form.rows)), place.row)
    return builder.add(builder.mul(row, word(form.region.columns)), place.column)
