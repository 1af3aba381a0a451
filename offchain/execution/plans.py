"""The plan of every operator kind: what its shapes and accesses fix, worked out once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from offchain.arithmetic.evaluate import UndefinedTypesError, check_types
from offchain.arithmetic.functions import DType, Function
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.errors import ProgramError
from offchain.execution.accesses import project
from offchain.execution.contractions import Contraction
from offchain.execution.folds import POSITION_FUNCTIONS, Reduction
from offchain.execution.gathers import Gather
from offchain.execution.kernels import philox
from offchain.execution.maps import MapGroup
from offchain.execution.moves import Alias, Move, is_alias
from offchain.execution.scatters import plan_scatter
from offchain.execution.views import Reader
from offchain.programs.graph import Kind, Node

_MOVES = frozenset({Kind.MOVE, Kind.SOURCE, Kind.SINK})
_COPYING = frozenset({Function.COPY, *POSITION_FUNCTIONS})

_ALONE = -1
"""The index of a map that is a group of its own: no operand refers to it."""


class Plan(Protocol):
    """Computes the output of one operator, again and again."""

    def run(self, flats: Sequence[Array | None], step: int) -> Array:
        """Return the output.

        Args:
            flats: the operands' tensors, contiguous, of any shape; None for constants.
            step: number of the training step.

        Returns:
            A contiguous array of the node's shape and type. It may be one of the operands.
        """


class _Random:
    def __init__(self, node: Node) -> None:
        self._node = node

    def run(self, _flats: Sequence[Array | None], step: int) -> Array:
        node = self._node
        return philox.uniform(node.seed, step, node.stream, node.elements).reshape(node.shape)


class _Empty:
    def __init__(self, node: Node) -> None:
        self._shape = node.shape
        self._dtype = NUMPY_TYPES[node.dtype]

    def run(self, _flats: Sequence[Array | None], _step: int) -> Array:
        return np.empty(self._shape, self._dtype)


class _Map:
    def __init__(self, node: Node) -> None:
        self._group = MapGroup([(_ALONE, node)], (_ALONE,))
        self._places = [node.operands.index(operand) for operand in self._group.operands]

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        (output,) = self._group.run([flats[place] for place in self._places])
        return output


def as_map(node: Node) -> Node | None:
    """Return a map as it is, a move of one view as a map that copies, and None for others."""
    if node.elements == 0:
        return None
    if node.kind in _MOVES and len(node.operands) == 1 and not is_alias(node):
        is_view = Reader(node.operands[0], node.shape).is_view
        return replace(node, kind=Kind.MAP, function=Function.COPY) if is_view else None
    return node if node.kind is Kind.MAP else None


def plan_node(node: Node) -> Plan:
    """Return a node's plan.

    Raises:
        ProgramError: its operands are of types for which the operator is not defined.
    """
    _check_types(node)
    if node.elements == 0:
        return _Empty(node)
    if node.kind.folds and node.fold_length == 0:
        init = project(node.operands[0], range(len(node.shape)))
        return plan_node(Node(Kind.MOVE, Function.COPY, node.dtype, node.shape, (init,)))
    as_copy = as_map(node)
    if as_copy is not None:
        return _Map(as_copy)
    if node.kind in _MOVES:
        return Alias(node) if is_alias(node) else Move(node)
    return _PLANS[node.kind](node)


_PLANS: Mapping[Kind, Callable[[Node], Plan]] = {
    Kind.CONTRACT: Contraction,
    Kind.REDUCE: Reduction,
    Kind.GATHER: Gather,
    Kind.SCATTER: plan_scatter,
    Kind.RANDOM: _Random,
}


def _check_types(node: Node) -> None:
    types = [operand.dtype for operand in node.operands]
    names = ", ".join(dtype.name for dtype in types)
    problem = f"{node.kind.name} is not defined as ({names}) -> {node.dtype.name}"
    if not _is_typed(node, types):
        raise ProgramError(problem)
    try:
        if node.kind is Kind.MAP:
            check_types(node.function, types, node.dtype)
        elif node.kind in (Kind.REDUCE, Kind.SCATTER) and node.function not in _COPYING:
            check_types(node.function, (node.dtype,) * 2, node.dtype)
    except UndefinedTypesError as error:
        raise ProgramError(f"{problem}: {error}") from error


def _is_typed(node: Node, types: Sequence[DType]) -> bool:
    """Whether the types are those of the operator's kind, whatever its function."""
    own = node.dtype
    if node.kind is Kind.MAP:
        return True
    if node.kind in (Kind.CONTRACT, Kind.RANDOM):
        return {own, *types} == {DType.FLOAT32}
    if node.kind is Kind.REDUCE and node.function in POSITION_FUNCTIONS:
        return types[0] is own and own in (DType.INT64, DType.INT32)
    if node.kind is Kind.GATHER:
        return types[0] is own and DType.FLOAT32 not in types[1:]
    if node.kind is Kind.SCATTER:
        return set(types[:2]) == {own} and DType.FLOAT32 not in types[2:]
    return set(types) == {own}
