"""The cost of recomputing an operator, known from its shapes before anything runs."""

from dataclasses import dataclass
from math import prod

from offchain.errors import CostBoundExceeded
from offchain.programs.graph import Kind, Node, Operand, Origin


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that one ruling may cost.

    Attributes:
        operations: scalar operations, an fma or a logarithm being one each.
        bytes: bytes of the operands and of the output together.
        seconds: time on the clock, besides what it takes to start.
    """

    operations: int = 1 << 40
    bytes: int = 1 << 33
    seconds: float = 120.0


DEFAULT = Bound()
"""Enough for any operator of a step of GPT-2 or ResNet-50 at the usual batch sizes."""


_COPIES = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a ruling, in the units of `Bound`."""

    operations: int
    bytes: int

    def check(self, bound: Bound) -> None:
        """Refuse a cost above the bound (`CostBoundExceeded`)."""
        for resource in ("operations", "bytes"):
            needed, allowed = getattr(self, resource), getattr(bound, resource)
            if needed > allowed:
                raise CostBoundExceeded(resource=resource, needed=needed, bound=allowed)


def get_elements(operand: Operand) -> int:
    """Return the number of elements of the tensor that an operand accesses."""
    return prod(row.size for row in operand.rows)


def compute_operator_cost(node: Node) -> Cost:
    """Return the cost of all elements of an operator."""
    operand_bytes = sum(
        get_elements(operand) * operand.dtype.width
        for operand in node.operands
        if operand.origin is not Origin.IMMEDIATE
    )
    output_bytes = node.elements * node.dtype.width
    return Cost(_count_operations(node), operand_bytes + output_bytes)


def compute_memory_bytes(node: Node, cost: Cost) -> int:
    """Return the memory that a ruling may take at once.

    Each tensor has a canonical copy and a tree, the claimed output included. The operands of a map
    and of a scatter may be copied for every position that they are read at; other operators copy
    theirs part by part.
    """
    memory = _COPIES * cost.bytes
    if node.kind in (Kind.MAP, Kind.SCATTER):
        memory += cost.operations * sum(operand.dtype.width for operand in node.operands)
    return memory


def _count_operations(node: Node) -> int:
    """Count scalar operations: of a scatter only those on matching positions, if it can tell them.

    It can where neither source nor indices depend on the dimensions that the indices name.
    """
    if node.kind is Kind.SCATTER:
        read = {v for o in node.operands[1:] for row in o.rows for v, _ in row.terms}
        if read.isdisjoint(node.targets):
            kept = (size for axis, size in enumerate(node.shape) if axis not in node.targets)
            return node.elements + node.fold_length * prod(kept)
    return node.elements * max(1, node.fold_length)
