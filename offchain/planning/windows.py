"""Reductions of small windows, such as those of pooling."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.planning.accesses import find_affine
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.planning.roles import EXPRESSIBLE
from moot.offchain.programs.graph import Node, Origin, Row

POSITIONS = {Function.ARGMAX: Function.GT, Function.ARGMIN: Function.LT}
"""The folds that return the position of the best element -> what makes another one better."""


_MOST_STEPS = 64
"""Elements of a window, for each of which there is code."""


_LEAST_COLUMNS = 4
_MOST_APART = 8
"""Elements from a window to that of the next column, beyond which most of a cache line is waste."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A coordinate that may be out of range: an affine function, and how many values are inside.

    Attributes:
        size: values from 0 to below it are inside.
        offset: the value in the first row and column, but for the shift.
        rows: what one more along each axis of the rows adds.
        column: what one more column adds.
        shifts: what each element of the window adds.
    """

    size: int
    offset: int
    rows: tuple[int, ...]
    column: int
    shifts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowFold(Form):
    """The folds of windows, for each row and column of results.

    Attributes:
        dtype: the type of the elements.
        function: what folds them; it may be one of `POSITIONS`.
        init: the bits that each fold starts from; of a position, none.
        rows: the extents of the rows' axes.
        columns: the number of columns.
        offset: the element that the first window begins with.
        row_steps: how far apart windows are along each axis of the rows, in elements.
        column_step: how far apart they are along the columns; positive.
        shifts: how far each element of a window is behind its first, in the order of the fold.
        bounds: the coordinates that may be out of range.
        inner: the columns whose windows are inside of the bounds that depend on columns.
    """

    dtype: DType
    function: Function
    init: int
    rows: tuple[int, ...]
    columns: int
    offset: int
    row_steps: tuple[int, ...]
    column_step: int
    shifts: tuple[int, ...]
    bounds: tuple[Bound, ...]
    inner: tuple[int, int]

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "steps",
            f"a window has at least one element, and at most {_MOST_STEPS}",
            lambda form: 1 <= len(form.shifts) <= _MOST_STEPS,
        ),
        Precondition(
            "columns",
            "there are columns, and windows of neighbours lie one after the other",
            lambda form: form.columns > 0 and form.column_step > 0,
        ),
        Precondition(
            "inner",
            "the columns that are inside are columns",
            lambda form: 0 <= form.inner[0] <= form.inner[1] <= form.columns,
        ),
        Precondition(
            "bounds",
            "a coordinate depends on columns or on rows, and has a shift for each element",
            lambda form: all(
                len(bound.shifts) == len(form.shifts) and not (bound.column and any(bound.rows))
                for bound in form.bounds
            ),
        ),
    )


def find_window(node: Node) -> WindowFold | None:
    """Return the form of a reduction of small windows, or None if it has another.

    Args:
        node: a reduce node with a positive number of elements and of fold steps.
    """
    init, operand = node.operands
    rank, sizes = len(node.shape), node.shape + node.fold_shape
    is_position = node.function in POSITIONS
    is_known = (is_position and operand.dtype is not DType.BOOL) or node.function in EXPRESSIBLE
    is_plain = init.origin is Origin.IMMEDIATE and operand.origin is not Origin.IMMEDIATE
    if not (is_known and is_plain) or node.fold_length > _MOST_STEPS or not rank:
        return None
    if is_position and init.value < node.fold_length:
        return None
    found, columns = find_affine(operand.rows, sizes), node.shape[-1]
    if found is None or columns < _LEAST_COLUMNS:
        return None
    coordinates, affine = found
    column_step = affine.strides[rank - 1]
    if not 1 <= column_step <= _MOST_APART:
        return None
    steps = list(product(*map(range, node.fold_shape)))
    bounds = [_find_bound(row, rank, steps) for row in coordinates if _is_loose(row, sizes)]
    if any(bound.column and any(bound.rows) for bound in bounds):
        return None
    first, stop = _find_inner([bound for bound in bounds if bound.column], columns)
    return make_form(
        WindowFold,
        dtype=operand.dtype,
        function=node.function,
        init=0 if is_position else init.value,
        rows=node.shape[:-1],
        columns=columns,
        offset=affine.offset,
        row_steps=affine.strides[: rank - 1],
        column_step=column_step,
        shifts=tuple(_add(affine.strides[rank:], step) for step in steps),
        bounds=tuple(bounds),
        inner=(first, stop),
    )


def _add(factors: Sequence[int], values: Sequence[int]) -> int:
    return sum(factor * value for factor, value in zip(factors, values, strict=True))


def _is_loose(row: Row, sizes: Sequence[int]) -> bool:
    ends = [c * (sizes[v] - 1) for v, c in row.terms]
    low, high = (row.offset + sum(e for e in ends if e * sign > 0) for sign in (-1, 1))
    return low < 0 or high >= row.size


def _find_bound(row: Row, rank: int, steps: Sequence[Sequence[int]]) -> Bound:
    terms = dict(row.terms)
    inner = [terms.get(rank + axis, 0) for axis in range(len(steps[0]))]
    return Bound(
        row.size,
        row.offset,
        tuple(terms.get(v, 0) for v in range(rank - 1)),
        terms.get(rank - 1, 0),
        tuple(_add(inner, step) for step in steps),
    )


def _find_inner(bounds: Sequence[Bound], columns: int) -> tuple[int, int]:
    """Return the columns whose windows are inside, as a range; (0, 0) if there are none."""
    inside = [
        column
        for column in range(columns)
        if all(
            0 <= b.offset + b.column * column + shift < b.size for b in bounds for shift in b.shifts
        )
    ]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)
