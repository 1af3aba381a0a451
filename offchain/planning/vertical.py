"""Vertical reductions: along an outer axis, by one operator, or by lanes and their fold."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.planning.accesses import Sizes, coalesce
from moot.offchain.planning.preconditions import Form, Precondition
from moot.offchain.planning.readings import Reading, is_identity
from moot.offchain.planning.roles import EXPRESSIBLE, find_matrix
from moot.offchain.programs.graph import Node, Origin

_LEAST_COLUMNS = 8
_MAX_MATRICES = 1 << 12


@dataclass(frozen=True, slots=True)
class VerticalFold(Form):
    """The folds of the columns of a matrix, which has rows `step` elements apart.

    In lanes, lane l folds the rows l, l + lanes, l + 2 lanes, ... and then the lanes are folded.

    Attributes:
        dtype: the type of the elements.
        function: the function that folds the rows.
        init: the bits that each of these folds starts from.
        rows: the number of rows.
        columns: the number of columns.
        step: how far apart the rows are.
        lanes: the number of lanes, None if all rows are folded at once.
        fill: the bits that a lane folds at its last step if there is no row left for it.
        outer_function: the function that folds the lanes.
        outer_init: the bits that the fold of the lanes starts from.
    """

    dtype: DType
    function: Function
    init: int
    rows: int
    columns: int
    step: int
    lanes: int | None = None
    fill: int = 0
    outer_function: Function = Function.COPY
    outer_init: int = 0

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "extents", "there are rows and columns", lambda form: min(form.rows, form.columns) > 0
        ),
        Precondition(
            "lanes",
            "there are at least as many rows as lanes",
            lambda form: form.lanes is None or 1 <= form.lanes <= form.rows,
        ),
        Precondition(
            "functions",
            "what folds is a function of elements, not of positions",
            lambda form: (
                form.function in EXPRESSIBLE
                and (form.lanes is None or form.outer_function in EXPRESSIBLE)
            ),
        ),
    )


class Stack(NamedTuple):
    """A stack of matrices whose columns are folded.

    Attributes:
        reading: the reading of the operand.
        outer: how many matrices there are along each of several axes.
        strides: how far apart they are along each axis, in elements.
        columns: the columns of each.
        rows: the rows of each.
        step: how far apart rows are.
        lanes: the lanes in which columns are folded, None if they are folded at once.
    """

    reading: Reading
    outer: Sizes
    strides: Sizes
    columns: int
    rows: int
    step: int
    lanes: int | None


@dataclass(frozen=True, slots=True)
class Vertical(Form):
    """A reduction along an outer axis: its one or two operators, with their indices."""

    indices: tuple[int, ...]
    nodes: tuple[Node, ...]
    stack: Stack

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "operators",
            "there is one operator, and one more if the first folds in lanes",
            lambda form: len(form.nodes) == len(form.indices) == 1 + (form.stack.lanes is not None),
        ),
        Precondition(
            "view",
            "the tensor is read where it is",
            lambda form: form.stack.reading.is_view,
        ),
        Precondition(
            "elements",
            "each column of each matrix is one element of the output",
            lambda form: prod(form.stack.outer) * form.stack.columns == form.nodes[-1].elements,
        ),
    )

    @property
    def fold(self) -> VerticalFold:
        """What is folded of each matrix."""
        stack, inner, outer = self.stack, self.nodes[0], self.nodes[-1]
        init, fill = (operand.value for operand in inner.operands)
        return VerticalFold(
            dtype=inner.dtype,
            function=inner.function,
            init=init,
            rows=stack.rows,
            columns=stack.columns,
            step=stack.step,
            lanes=stack.lanes,
            fill=fill,
            outer_function=outer.function,
            outer_init=outer.operands[0].value,
        )


def find_stack(node: Node) -> Stack | None:
    """Return the stack that a reduction folds, if neighbouring results come from neighbours."""
    folded = find_matrix(node)
    if folded is None or node.function not in EXPRESSIBLE:
        return None
    reading = Reading(folded.operand, folded.sizes)
    *outer, step = reading.strided.strides
    if not reading.is_view or step == 1:
        return None
    (*sizes, columns), ((*strides, stride),) = coalesce(folded.sizes[:-1], [outer])
    is_dense = stride == 1 and columns >= _LEAST_COLUMNS and prod(sizes) <= _MAX_MATRICES
    if not is_dense or folded.columns < (folded.lanes or 1):
        return None
    return Stack(reading, tuple(sizes), tuple(strides), columns, folded.columns, step, folded.lanes)


def is_fold_of(node: Node, index: int, lanes: Node) -> bool:
    """Whether a node folds the lanes that the operator of this index has folded."""
    folded = find_matrix(node)
    if folded is None or folded.lanes is not None or node.function not in EXPRESSIBLE:
        return False
    operand, sizes = folded.operand, folded.sizes
    is_of_lanes = operand.origin is Origin.NODE and operand.reference == index
    is_whole = sizes[-1] == lanes.shape[-1] and prod(sizes) == lanes.elements
    return is_of_lanes and is_whole and is_identity(operand, sizes)
