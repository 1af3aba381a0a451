"""The translation of a region's operators to the values of a fused kernel on one matrix."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.planning.accesses import Sizes, coalesce, collapse, get_used, row_major
from moot.offchain.planning.gathers import find_fusible
from moot.offchain.planning.readings import Reading, is_turned
from moot.offchain.planning.region import (
    Apply,
    Columns,
    Constant,
    Fold,
    Gathered,
    Lanes,
    Load,
    Pick,
    Value,
    is_full,
)
from moot.offchain.planning.roles import Group, Member, Role, as_folded, as_picked
from moot.offchain.programs.graph import Kind, Operand, Origin

_PART_COLUMNS = 1 << 13
"""Columns of a part of a long row, where maps alone are computed."""


class _Access(NamedTuple):
    """A read of a member: one operand, on a domain of full or of row values."""

    operand: Operand
    sizes: Sizes
    is_row: bool
    is_moved: bool = False
    """Whether indices move it, so that it may read more of the tensor than it says."""

    def is_outside(self, inside: Collection[int]) -> bool:
        """Whether the operand is a tensor from outside the region."""
        origin = self.operand.origin
        is_inside = origin is Origin.NODE and self.operand.reference in inside
        return origin is not Origin.IMMEDIATE and not is_inside


class _Layout(NamedTuple):
    """The layout of an access: a buffer, the first element, and the strides along the axes."""

    buffer: int
    offset: int
    strides: tuple[int, ...]


class Assembly:
    """The values of a region.

    Args:
        group: the operators and the matrix that they are on.

    Attributes:
        rows: the extents of the rows' axes.
        columns: the number of columns.
        last_columns: the number of columns at the end of the last of the rows' axes.
        segments: the segments of each row.
        readings: one reading for each operand from outside.
        values: the values.
        numbers: index of each member -> the number of its value.
    """

    def __init__(self, group: Group) -> None:
        members, columns = group.members, group.columns
        self._cuts = sorted(group.cuts, reverse=True)
        self._axes = tuple(upper // lower for upper, lower in pairwise(self._cuts))
        self._width, self.segments = columns, group.segments
        self._segment_span = max(self._cuts) // group.segments
        self.readings: list[Reading] = []
        self._buffers: dict[object, int] = {}
        inside = {member.index for member in members}
        accesses = [a for member in members for a in list_accesses(member) if a.is_outside(inside)]
        layouts = {access: self._lay_out(access) for access in accesses}
        strides = [layout.strides for layout in layouts.values()]
        outer = self._cuts.index(self._segment_span)
        along = [collapse(self._axes[:outer], places[:outer]) or 0 for places in strides]
        axes, strides = self._axes[outer:], [places[outer:] for places in strides]
        self.rows, self.columns, self.last_columns, places = (
            _place_maps(axes, strides)
            if columns is None
            else _place_rows(axes, strides, self._cuts.index(columns) - outer)
        )
        self._loads = {
            access: Load(
                access.operand.dtype,
                layout.buffer,
                layout.offset,
                place[:-1],
                None if access.is_row else place[-1],
                step,
            )
            for (access, layout), place, step in zip(layouts.items(), places, along, strict=True)
        }
        self.values: list[Value] = []
        self.numbers: dict[int, int] = {}
        self._shared: dict[Value, int] = {}
        for member in members:
            self.numbers[member.index] = self._append(self._translate(member))

    def count_row_bytes(self, stored: Sequence[int]) -> int:
        """Return how many bytes of operands and of these values there are in a row."""
        read = [
            v
            for v in self.values
            if isinstance(v, Gathered) or (isinstance(v, Load) and v.column_stride)
        ]
        written = [self.values[number] for number in stored]
        full = [v for v in (*read, *written) if is_full(v)]
        columns = self.segments * self.columns
        return max(1, sum(columns * value.dtype.width for value in full))

    def _lay_out(self, access: _Access) -> _Layout:
        """Return an access's layout along the axes of the refinement."""
        operand, sizes, is_row = access[:3]
        reading = Reading(operand, sizes)
        strides = self._refine(access, reading)
        is_copied = not is_row and not access.is_moved
        if is_copied and reading.is_view and is_turned(self._axes, strides):
            reading = Reading(operand, sizes, get_used(operand, sizes))
            strides = self._refine(access, reading)
        if self._width is not None and is_copied:
            inner, outer = map(self._cuts.index, (self._width, self._segment_span))
            parts = slice(inner, None), slice(outer)
            if any(collapse(self._axes[part], strides[part]) is None for part in parts):
                spans = enumerate(row_major(sizes))
                nest = {v for v, s in spans if not self._width <= s < self._segment_span}
                reading = Reading(operand, sizes, sorted(nest.union(get_used(operand, sizes))))
                strides = self._refine(access, reading)
        key = (operand.origin, operand.reference) if reading.is_view else access
        buffer = self._buffers.setdefault(key, len(self.readings))
        if buffer == len(self.readings):
            self.readings.append(reading)
        return _Layout(buffer, reading.strided.offset, strides)

    def _refine(self, access: _Access, reading: Reading) -> tuple[int, ...]:
        unit = (self._width or 1) if access.is_row else 1
        spans = [unit * span for span in row_major(access.sizes)]
        axes = list(zip(access.sizes, spans, reading.strided.strides, strict=True))
        return tuple(
            sum(
                stride * (lower // span)
                for size, span, stride in axes
                if span <= lower and upper <= span * size
            )
            for upper, lower in pairwise(self._cuts)
        )

    def _translate(self, member: Member) -> Value:
        """Return a member's value, after the operands and constants that it reads."""
        node = member.node
        if node.kind is Kind.GATHER and member.role is Role.FULL:
            return self._translate_gather(member)
        arguments = tuple(self._number(access) for access in list_accesses(member))
        if node.kind is Kind.SCATTER:
            init, source, column = arguments
            same = Apply(
                DType.BOOL, Function.EQ, (self._find_columns(member), column), is_row=False
            )
            return Apply(
                node.dtype, Function.WHERE, (self._append(same), source, init), is_row=False
            )
        if member.role is Role.PICK:
            argument, picked = arguments
            return Pick(node.dtype, argument, picked, node.operands[0].value)
        if member.role in {Role.FULL, Role.ROW}:
            return Apply(node.dtype, node.function, arguments, member.role is Role.ROW)
        init, fill = (operand.value for operand in node.operands)
        if member.role is Role.FOLD:
            return Fold(node.dtype, node.function, arguments[0], init)
        return Lanes(node.dtype, node.function, arguments[0], node.shape[-1], init, fill)

    def _translate_gather(self, member: Member) -> Value:
        node, found = member.node, find_fusible(member.node)
        assert found is not None
        data, *indices = list_accesses(member)
        return Gathered(
            node.dtype,
            self._loads[data],
            tuple(self._number(indices[c.operand]) for c in found.coordinates),
            tuple(c.size for c in found.coordinates),
            tuple(c.step for c in found.coordinates),
            node.operands[0].value,
        )

    def _number(self, access: _Access) -> int:
        operand = access.operand
        if operand.origin is Origin.NODE and operand.reference in self.numbers:
            return self.numbers[operand.reference]
        is_constant = operand.origin is Origin.IMMEDIATE
        value = Constant(operand.dtype, operand.value) if is_constant else self._loads[access]
        return self._share(value)

    def _find_columns(self, member: Member) -> int:
        """Return the number of the columns' numbers, in the type of a scatter's index."""
        dtype = member.node.operands[-1].dtype
        columns = self._share(Columns())
        if dtype is DType.INT64:
            return columns
        return self._share(Apply(dtype, Function.CONVERT, (columns,), is_row=False))

    def _share(self, value: Value) -> int:
        if value not in self._shared:
            self._shared[value] = self._append(value)
        return self._shared[value]

    def _append(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1


def list_accesses(member: Member) -> list[_Access]:
    """Return the accesses of a member, to values of the region and to tensors from outside."""
    node = member.node
    if member.role is Role.FULL and node.kind is Kind.GATHER:
        found = find_fusible(node)
        assert found is not None
        data = _Access(found.data, node.shape, is_row=False, is_moved=True)
        return [
            data,
            *(_Access(operand, node.shape, is_row=False) for operand in node.operands[1:]),
        ]
    if member.role in {Role.FULL, Role.ROW}:
        is_row = member.role is Role.ROW
        return [_Access(operand, node.shape, is_row) for operand in node.operands]
    folded = as_picked(node) if member.role is Role.PICK else as_folded(node)
    assert folded is not None
    whole = _Access(folded.operand, folded.sizes, is_row=False)
    columns = [_Access(operand, node.shape, is_row=True) for operand in node.operands[1:]]
    return [whole, *columns] if member.role is Role.PICK else [whole]


_Places = tuple[Sizes, int, int, Sequence[tuple[int, ...]]]
"""The rows' axes, the columns, those of the last part, and the strides along rows and columns."""


def _place_maps(axes: Sizes, strides: Sequence[tuple[int, ...]]) -> _Places:
    """Take the innermost axis, or parts of the only one, as columns."""
    (*rows, columns), (_, *merged) = coalesce(axes, [row_major(axes), *strides])
    if rows:
        return tuple(rows), columns, columns, merged
    parts = -(-columns // _PART_COLUMNS)
    if parts == 1:
        return (1,), columns, columns, [(0, *places) for places in merged]
    last = columns - _PART_COLUMNS * (parts - 1)
    split = [(stride * _PART_COLUMNS, stride) for (stride,) in merged]
    return (parts,), _PART_COLUMNS, last, split


def _place_rows(axes: Sizes, strides: Sequence[tuple[int, ...]], inner: int) -> _Places:
    """Take the axes from `inner` on as columns."""
    rows, outer = coalesce(axes[:inner], [places[:inner] for places in strides])
    columns = [collapse(axes[inner:], places[inner:]) or 0 for places in strides]
    places = [(*above, step) for above, step in zip(outer, columns, strict=True)]
    return rows, prod(axes[inner:]), prod(axes[inner:]), places
