"""The roles of operators in a region, whose values lie on the rows and columns of a matrix.

All values of a region are on one domain of `segments` times `rows` times `columns` elements, in
row-major order, whatever shapes the operators have. There is one segment, unless rows lie in
several, as a channel does in the images of a batch. An operator is *full* if it has an element for
each, *row* if it has one for every row, in all of its segments. A fold of every row is either one
operator or two: *lanes*, which folds every so-many-th column, and then the fold of the lanes. A
gather may *pick* one column of every row, and a scatter may be full: of all columns of a row, it
writes to one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from math import prod
from typing import ClassVar, NamedTuple

from moot.offchain.arithmetic.functions import Function
from moot.offchain.planning.accesses import Sizes, project, row_major
from moot.offchain.planning.preconditions import Form, Precondition
from moot.offchain.planning.readings import Reading
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row

_POSITIONS = frozenset({Function.ARGMAX, Function.ARGMIN})

EXPRESSIBLE = frozenset(Function) - _POSITIONS - {Function.UNIFORM, Function.POW}
"""The functions of elements that may be part of a kernel; others have kernels of their own."""

FEW_ROWS = 16
SMALL_ELEMENTS = 1 << 16
"""A matrix of few rows is computed row by row if it is not small."""

_LEAST_ROWS = 4
"""Rows in several segments that are worth a kernel, which does not divide them."""


class Role(Enum):
    """The role of an operator in a region."""

    FULL = "full"
    ROW = "row"
    LANES = "lanes"
    FOLD = "fold"
    PICK = "pick"


@dataclass(frozen=True, slots=True)
class Member:
    """An operator of a region: its index, the map or the reduction that it is, and its role."""

    index: int
    node: Node
    role: Role


class Folded(NamedTuple):
    """The operand of a reduction that folds the rows of a matrix.

    Attributes:
        operand: the access on the matrix; its last variable is the column, and its first ones are
            those of the segments.
        sizes: extents of its variables.
        lanes: the lanes in which it folds, None if it folds the whole row at once. Lane l folds the
            columns l, l + lanes, ... of one segment after another.
        segments: the number of segments.
    """

    operand: Operand
    sizes: Sizes
    lanes: int | None
    segments: int = 1

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.sizes[-1]

    @property
    def elements(self) -> int:
        """The number of elements of the matrix."""
        return prod(self.sizes)


def is_broadcast(operand: Operand, sizes: Sizes, columns: int, rows: int) -> bool:
    """Whether an access reads one element for every row, in order, and that in each segment."""
    reading = Reading(operand, sizes) if operand.origin is not Origin.IMMEDIATE else None
    if reading is None or not reading.is_view or reading.strided.offset:
        return False
    segment = rows * columns
    for size, stride, whole in zip(sizes, reading.strided.strides, row_major(sizes), strict=True):
        is_aligned = whole % columns == 0 or size * whole <= columns
        if size > 1 and not (is_aligned and stride == whole % segment // columns):
            return False
    return True


def as_folded(node: Node) -> Folded | None:
    """Return the rows that a reduction folds, None if their elements are not neighbours."""
    folded = find_matrix(node) or _find_segments(node)
    if folded is None:
        return None
    reading = Reading(folded.operand, folded.sizes)
    is_dense = reading.is_view and reading.strided.strides[-1] == 1
    return folded if is_dense and folded.columns > 1 else None


def find_matrix(node: Node) -> Folded | None:
    """Return the rows that a reduction folds from a constant, if they are that of a matrix."""
    if not _is_plain(node) or len(node.fold_shape) != 1:
        return None
    operand = node.operands[1]
    return _find_lanes(node, operand) or Folded(operand, node.shape + node.fold_shape, None)


def _find_segments(node: Node) -> Folded | None:
    """Return the rows, each in segments, that a reduction folds in lanes, if it does."""
    is_segmented = _is_plain(node) and len(node.fold_shape) > 1
    folded = _find_lanes(node, node.operands[1]) if is_segmented else None
    if folded is None or folded.lanes is None:
        return None
    count = len(node.shape) - 1
    order = [*range(count + 1, len(folded.sizes)), *range(count + 1)]
    sizes = tuple(folded.sizes[v] for v in order)
    *_, columns = sizes
    if columns < folded.lanes or prod(folded.sizes[:count]) < _LEAST_ROWS:
        return None
    operand, segments = project(folded.operand, order), prod(folded.sizes[count + 1 :])
    return Folded(operand, sizes, folded.lanes, segments)


def _is_plain(node: Node) -> bool:
    """Whether a node folds a tensor, from a constant."""
    if node.kind is not Kind.REDUCE or node.function in _POSITIONS:
        return False
    init, operand = node.operands
    is_constant = init.origin is Origin.IMMEDIATE and operand.origin is not Origin.IMMEDIATE
    return is_constant and node.elements * node.fold_length > 0


def _find_lanes(node: Node, operand: Operand) -> Folded | None:
    """Return the rows that a reduction folds in lanes, if it does."""
    if not node.shape:
        return None
    *outer, lanes = node.shape
    *lead, steps = node.fold_shape
    lane, step = len(outer), len(outer) + len(node.fold_shape)
    coefficients = [dict(row.terms) for row in operand.rows]
    is_strided = all(c.get(step, 0) == lanes * c.get(lane, 0) for c in coefficients)
    if lanes & (lanes - 1) or not is_strided or not any(lane in c for c in coefficients):
        return None
    rows = [replace(r, terms=tuple(t for t in r.terms if t[0] != step)) for r in operand.rows]
    bounds = [_count_inside(row) for row in rows if [v for v, _ in row.terms] == [lane]]
    columns = min([lanes * steps, *bounds])
    if columns <= lanes * (steps - 1):
        return None
    return Folded(replace(operand, rows=tuple(rows)), (*outer, columns, *lead), lanes)


def _count_inside(row: Row) -> int:
    """Return how many values of a row's only variable are in range, 0 if that is not simple."""
    ((_, coefficient),) = row.terms
    is_simple = coefficient > 0 and row.divisor == 1 and 0 <= row.offset < row.size
    return (row.size - 1 - row.offset) // coefficient + 1 if is_simple else 0


@dataclass(frozen=True, slots=True)
class Group(Form):
    """The operators of a region.

    Attributes:
        members: the operators, ascending.
        columns: the columns of the matrix, None if there are only full values.
        cuts: how many elements the axes of all their shapes span; each divides the next.
        segments: the segments of each row, all of these columns.
    """

    members: tuple[Member, ...]
    columns: int | None
    cuts: frozenset[int]
    segments: int = 1

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "members",
            "there are operators, ascending, all with elements",
            lambda form: (
                form.members
                and all(a < b for a, b in pairwise(form.indices))
                and all(member.node.elements > 0 for member in form.members)
            ),
        ),
        Precondition(
            "cuts",
            "shapes nest, and rows are whole in the matrix",
            lambda form: (
                is_nested(form.cuts)
                and (form.columns is None or max(form.cuts) % (form.columns * form.segments) == 0)
            ),
        ),
        Precondition(
            "functions",
            "functions are of elements, not of positions",
            lambda form: all(member.node.function in EXPRESSIBLE for member in form.members),
        ),
    )

    @property
    def indices(self) -> tuple[int, ...]:
        """The indices of the members."""
        return tuple(member.index for member in self.members)

    @property
    def is_of_rows(self) -> bool:
        """Whether there are rows, each in one piece."""
        return self.columns is not None and self.segments == 1

    @property
    def is_wide(self) -> bool:
        """Whether the rows are so few and so long that each is worth several threads."""
        elements = max(self.cuts)
        if self.columns is None or self.segments > 1 or elements <= SMALL_ELEMENTS:
            return False
        return elements < FEW_ROWS * self.columns


def as_picked(node: Node) -> Folded | None:
    """Return the rows of which a gather picks one column each, if it does."""
    if node.kind is not Kind.GATHER or len(node.operands) != 2 or not node.elements:
        return None
    data, rank = node.operands[0], len(node.shape)
    named = [row for row in data.rows if any(v == rank for v, _ in row.terms)]
    if len(named) != 1 or named[0] != Row(named[0].size, 0, ((rank, 1),)):
        return None
    return Folded(data, (*node.shape, named[0].size), None) if named[0].size > 1 else None


def is_one_hot(node: Node) -> bool:
    """Whether a scatter writes to one column of every row, and that without further folds."""
    last = len(node.shape) - 1
    if node.kind is not Kind.SCATTER or node.targets != (last,) or node.fold_length != 1:
        return False
    init, source, column = node.operands
    variables = {v for operand in (source, column) for row in operand.rows for v, _ in row.terms}
    is_constant = init.origin is Origin.IMMEDIATE and node.function is Function.COPY
    is_of_row = all(v < last for row in column.rows for v, _ in row.terms)
    return is_constant and is_of_row and all(v <= last for v in variables) and node.elements > 0


def find_cuts(role: Role, node: Node, columns: int | None) -> set[int]:
    """Return how many elements of the matrix each axis of a node, and those inside it, span."""
    unit = 1 if role in {Role.FULL, Role.LANES} else columns or 1
    folded = as_folded(node) if role is Role.LANES else None
    axes = node.shape if folded is None else folded.sizes
    cuts = {1, unit}
    for size in reversed(axes):
        unit *= size
        cuts.add(unit)
    return cuts


def is_nested(cuts: Iterable[int]) -> bool:
    """Whether shapes of these cuts have a common refinement."""
    return all(b % a == 0 for a, b in pairwise(sorted(cuts)))
