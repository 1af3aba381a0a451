"""The cost of operators and of programs, known from shapes before anything is fetched or run."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Slot

_COPIES = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an operator.

    Attributes:
        operations: scalar operations, an fma or a logarithm being one each.
        bytes: bytes of the operands and of the output together.
    """

    operations: int
    bytes: int


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


def count_bytes(tensors: Iterable[Node | Slot]) -> int:
    """Return the bytes of tensors, such as a state's."""
    return sum(it.elements * it.dtype.width for it in tensors)


def compute_least_memory(program: Program) -> int:
    """Return the bytes that no run of a program can do without.

    That are the state, a batch, and what its largest operator reads and writes besides.
    """
    held = count_bytes(program.state) + count_bytes(program.batch)
    return held + max((_count_own_bytes(node) for node in program.nodes), default=0)


def _count_own_bytes(node: Node) -> int:
    """Return the bytes of an operator's output, and of what other operators have made for it."""
    read = {it.reference: it for it in node.operands if it.origin is Origin.NODE}
    operand_bytes = sum(get_elements(it) * it.dtype.width for it in read.values())
    return operand_bytes + node.elements * node.dtype.width
