"""The engine of `hopper` and `ampere`: plans of chains of blocks, and all else as in `ordered`."""

from collections.abc import Sequence

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.tensor import pairs
from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.offchain.backends.cpu import plans
from moot.offchain.backends.cpu.partials import list_defined_partials, list_wide_elements
from moot.offchain.backends.cpu.tensor import plan_product
from moot.offchain.backends.port import Plan
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.packing import Packing
from moot.offchain.programs.graph import Node


def plan_tensor(arithmetic: Arithmetic, node: Node) -> Plan:
    """Return the plan of a legal node."""
    if node.has_short_factors:
        return plan_product(node, BLOCKS[arithmetic.name])
    return plans.plan_node(node)


def is_fusible(node: Node) -> bool:
    """Whether an operator may be computed together with its neighbours."""
    return not node.has_short_factors and plans.is_fusible(node)


def find_packing(node: Node) -> Packing | None:
    """Return how a contraction would rather have a factor."""
    return None if node.has_short_factors else plans.find_packing(node)


def list_partials(
    arithmetic: Arithmetic, node: Node, element: int, operands: Sequence[Array | None]
) -> Array:
    """Return the accumulators of one element of a fold, as wide as a chain's."""
    if node.has_short_factors:
        return list_defined_partials(arithmetic, node, element, operands)
    return list_wide_elements(node, element, operands, pairs.WIDTH_BYTES)
