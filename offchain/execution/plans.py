"""The choice of a plan for each operator; a plan holds what depends on no tensor's content."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from offchain.arithmetic.functions import Function
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.execution.accesses import project
from offchain.execution.contractions import plan_contraction
from offchain.execution.folds import Reduction
from offchain.execution.gathers import plan_gather
from offchain.execution.kernels import philox
from offchain.execution.maps import Map
from offchain.execution.moves import Alias, Move, is_alias
from offchain.execution.scatters import plan_scatter
from offchain.execution.views import Reader
from offchain.execution.windows import WindowReduction, find_window
from offchain.programs.graph import Kind, Node


class Plan(Protocol):
    """A plan that computes the output of one operator as often as it is asked."""

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


def as_map(node: Node) -> Node | None:
    """Return a map as it is, a move of one view as a map that copies, and None for others."""
    if node.elements == 0:
        return None
    if node.kind.moves and len(node.operands) == 1 and not is_alias(node):
        is_view = Reader(node.operands[0], node.shape).is_view
        return replace(node, kind=Kind.MAP, function=Function.COPY) if is_view else None
    return node if node.kind is Kind.MAP else None


def plan_node(node: Node) -> Plan:
    """Return the plan of a node that is valid (`check_node`)."""
    if node.elements == 0:
        return _Empty(node)
    if node.kind.folds and node.fold_length == 0:
        init = project(node.operands[0], range(len(node.shape)))
        return plan_node(Node(Kind.MOVE, Function.COPY, node.dtype, node.shape, (init,)))
    as_copy = as_map(node)
    if as_copy is not None:
        return Map(as_copy)
    if node.kind.moves:
        return Alias(node) if is_alias(node) else Move(node)
    return _PLANS[node.kind](node)


def _plan_reduction(node: Node) -> Plan:
    fold = find_window(node)
    return Reduction(node) if fold is None else WindowReduction(node, fold)


_PLANS: Mapping[Kind, Callable[[Node], Plan]] = {
    Kind.CONTRACT: plan_contraction,
    Kind.REDUCE: _plan_reduction,
    Kind.GATHER: plan_gather,
    Kind.SCATTER: plan_scatter,
    Kind.RANDOM: _Random,
}
