"""The plans of reductions along an outer axis: of one operator, or of lanes and their fold."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.execution.accesses import Sizes
from offchain.execution.kernels.fused.vertical import VerticalFold, compile_fold
from offchain.execution.maps import coalesce, is_identity
from offchain.execution.roles import find_matrix
from offchain.execution.views import Reader
from offchain.native import buffers, emit
from offchain.native.threads import share
from offchain.programs.graph import Node, Origin

_LEAST_COLUMNS = 8
_MAX_MATRICES = 1 << 12
_GRAIN_BYTES = 1 << 21
"""Bytes of the operand that make another thread worth its start."""


class Stack(NamedTuple):
    """A stack of matrices whose columns are folded.

    Attributes:
        reader: the reader of the operand.
        outer: how many matrices there are along each of several axes.
        strides: how far apart they are along each axis, in elements.
        columns: the columns of each.
        rows: the rows of each.
        step: how far apart rows are.
        lanes: the lanes in which columns are folded, None if they are folded at once.
    """

    reader: Reader
    outer: Sizes
    strides: Sizes
    columns: int
    rows: int
    step: int
    lanes: int | None


class Vertical(NamedTuple):
    """A reduction along an outer axis: its one or two operators, with their indices."""

    indices: tuple[int, ...]
    nodes: tuple[Node, ...]
    stack: Stack


def find_stack(node: Node) -> Stack | None:
    """Return the stack that a reduction folds, if neighbouring results come from neighbours."""
    folded = find_matrix(node)
    if folded is None or node.function not in emit.EXPRESSIBLE:
        return None
    reader = Reader(folded.operand, folded.sizes)
    *outer, step = reader.strided.strides
    if not reader.is_view or step == 1:
        return None
    (*sizes, columns), ((*strides, stride),) = coalesce(folded.sizes[:-1], [outer])
    is_dense = stride == 1 and columns >= _LEAST_COLUMNS and prod(sizes) <= _MAX_MATRICES
    if not is_dense or folded.columns < (folded.lanes or 1):
        return None
    return Stack(reader, tuple(sizes), tuple(strides), columns, folded.columns, step, folded.lanes)


def is_fold_of(node: Node, index: int, lanes: Node) -> bool:
    """Whether a node folds the lanes that the operator of this index has folded."""
    folded = find_matrix(node)
    if folded is None or folded.lanes is not None or node.function not in emit.EXPRESSIBLE:
        return False
    operand, sizes = folded.operand, folded.sizes
    is_of_lanes = operand.origin is Origin.NODE and operand.reference == index
    is_whole = sizes[-1] == lanes.shape[-1] and prod(sizes) == lanes.elements
    return is_of_lanes and is_whole and is_identity(operand, sizes)


class VerticalReduction:
    """The plan of a reduction along an outer axis.

    Attributes:
        operands: the access to the one tensor that is reduced.
    """

    def __init__(self, vertical: Vertical) -> None:
        self._stack = stack = vertical.stack
        self.operands = (stack.reader.operand,)
        inner, outer = vertical.nodes[0], vertical.nodes[-1]
        self._shape, self._dtype = outer.shape, NUMPY_TYPES[outer.dtype]
        init, fill = (operand.value for operand in inner.operands)
        self._fold = VerticalFold(
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

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the output, given the tensor of the operand."""
        stack, kernel = self._stack, compile_fold(self._fold)
        source = stack.reader.buffer(*flats)
        target = buffers.empty(self._shape, self._dtype)
        width = target.itemsize
        start = source.ctypes.data + stack.reader.strided.offset * width
        places = np.zeros(stack.outer, np.int64)
        for axis, stride in enumerate(stack.strides):
            shape = [-1 if a == axis else 1 for a in range(len(stack.outer))]
            places += np.arange(stack.outer[axis], dtype=np.int64).reshape(shape) * stride
        starts = [start + place * width for place in places.reshape(-1).tolist()]
        ends = [target.ctypes.data + i * stack.columns * width for i in range(len(starts))]

        def fold(first: int, stop: int) -> None:
            for matrix in range(first // kernel.strips, -(-stop // kernel.strips)):
                before = matrix * kernel.strips
                strips = max(first - before, 0), min(stop - before, kernel.strips)
                kernel.run(starts[matrix], ends[matrix], *strips)

        grain = -(-_GRAIN_BYTES // (stack.rows * kernel.strip * width))
        share(fold, len(starts) * kernel.strips, grain)
        return [target]
