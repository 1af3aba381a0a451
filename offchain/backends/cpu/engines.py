"""The engines: for each arithmetic, how its programs' operators are planned, fused and opened."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import TENSOR
from moot.offchain.backends.cpu import exact, tensor_plans
from moot.offchain.backends.cpu.logged import plans as logged
from moot.offchain.backends.cpu.partials import list_partials
from moot.offchain.backends.cpu.plans import find_packing, is_fusible, plan_node
from moot.offchain.backends.port import Plan
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.packing import Packing
from moot.offchain.programs.graph import Node


def _find_none(_node: Node) -> None:
    """Return no packing."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine, which computes what `programs/semantics.py` says, bit for bit.

    Attributes:
        plan: returns the plan of a legal node by itself.
        is_fusible: whether an operator may be computed in one kernel with its neighbours.
        list_partials: returns the accumulators of one element of a fold, given the node, the
            element, and the tensors that the node reads: see `partials.py`.
        find_packing: returns how a contraction would rather have a factor, if it would.
    """

    plan: Callable[[Node], Plan]
    is_fusible: Callable[[Node], bool]
    list_partials: Callable[[Node, int, Sequence[Array | None]], Array]
    find_packing: Callable[[Node], Packing | None] = _find_none


_ENGINES: Mapping[str, Engine] = {
    ORDERED.name: Engine(plan_node, is_fusible, list_partials, find_packing),
    EXACT.name: Engine(exact.plan_exact, exact.is_fusible, exact.list_partials),
    LOGGED.name: Engine(logged.plan_logged, logged.is_fusible, exact.list_partials),
    **{
        arithmetic.name: Engine(
            partial(tensor_plans.plan_tensor, arithmetic),
            tensor_plans.is_fusible,
            partial(tensor_plans.list_partials, arithmetic),
            tensor_plans.find_packing,
        )
        for arithmetic in TENSOR
    },
}


def get_engine(arithmetic: Arithmetic) -> Engine:
    """Return the engine of an arithmetic."""
    return _ENGINES[arithmetic.name]


def list_arithmetics() -> Collection[str]:
    """Return the names of the arithmetics that have an engine."""
    return _ENGINES.keys()
