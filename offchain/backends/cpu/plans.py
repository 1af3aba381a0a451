"""The choice of a plan for each operator; a plan holds what depends on no tensor's content."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu import called_integers
from moot.offchain.backends.cpu.called_products import Products
from moot.offchain.backends.cpu.contractions import Contraction, plan_contraction
from moot.offchain.backends.cpu.folds import Reduction
from moot.offchain.backends.cpu.gathers import plan_gather
from moot.offchain.backends.cpu.kernels import philox
from moot.offchain.backends.cpu.maps import Map
from moot.offchain.backends.cpu.moves import Alias, Move
from moot.offchain.backends.cpu.scatters import plan_scatter
from moot.offchain.backends.cpu.windows import WindowReduction
from moot.offchain.backends.port import Plan
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.planning.accesses import project
from moot.offchain.planning.packing import Packing
from moot.offchain.planning.readings import as_map, is_alias
from moot.offchain.planning.windows import find_window
from moot.offchain.programs.graph import Kind, Node


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


def is_fusible(node: Node) -> bool:
    """Whether an operator may be computed together with its neighbours, in `ordered`."""
    if node.kind is not Kind.CONTRACT:
        return True
    if node.multiplies_integers:
        return False
    return node.elements * node.fold_length > 0 and Contraction(node).is_product


def find_packing(node: Node) -> Packing | None:
    """Return how a contraction would rather have a factor, in `ordered`."""
    if node.multiplies_integers or node.elements * node.fold_length == 0:
        return None
    return Contraction(node).find_packing()


def _plan_product(node: Node) -> Plan:
    if node.multiplies_integers:
        # Numbers of other types fit into words or not, as a run sees.
        is_short = all(factor.dtype is DType.INT8 for factor in node.operands[1:])
        list_calls = called_integers.list_products if is_short else None
        return Contraction(node, Products(called_integers.multiply, list_calls))
    return plan_contraction(node)


def _plan_reduction(node: Node) -> Plan:
    fold = find_window(node)
    return Reduction(node) if fold is None else WindowReduction(node, fold)


_PLANS: Mapping[Kind, Callable[[Node], Plan]] = {
    Kind.CONTRACT: _plan_product,
    Kind.REDUCE: _plan_reduction,
    Kind.GATHER: plan_gather,
    Kind.SCATTER: plan_scatter,
    Kind.RANDOM: _Random,
}
