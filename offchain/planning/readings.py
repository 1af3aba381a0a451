"""Readings: the ways in which operands are read, and the operators that only read.

Nothing is read here: a backend makes buffers and views of what is said.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from moot.offchain.arithmetic.functions import Function
from moot.offchain.planning.accesses import (
    Sizes,
    Strided,
    find_strided,
    get_used,
    project,
    row_major,
)
from moot.offchain.programs.graph import Kind, Node, Operand, Origin

_LEAST_TURNED = 1 << 14
"""Elements of a domain that make up for a copy of an operand."""

_LEAST_NEIGHBOURS = 4


class Reading:
    """A reading of an operand on a domain: a contiguous buffer, and a fixed strided view of it.

    The buffer is the operand's tensor, a constant, or a dense copy that is filled box by box.

    Args:
        operand: the operand.
        sizes: extents of the domain's variables.
        nest: if given, the buffer is a dense copy that nests these variables, the outermost first:
            all that the access uses, and any others.

    Attributes:
        operand: the operand.
        sizes: the extents.
        nest: the variables that a dense copy nests, None without one.
        strided: the view of the buffer.
        is_view: whether the buffer is the operand itself or a constant, so that reading is free.
    """

    def __init__(self, operand: Operand, sizes: Sizes, nest: Sequence[int] | None = None) -> None:
        self.operand = operand
        self.sizes = sizes
        is_constant = operand.origin is Origin.IMMEDIATE
        strided = (
            Strided(0, (0,) * len(sizes)) if is_constant else find_strided(operand.rows, sizes)
        )
        self.is_view = strided is not None and nest is None
        self.nest = nest
        if strided is not None and nest is None:
            self.strided = strided
        else:
            self.nest = get_used(operand, sizes) if nest is None else nest
            places = dict(zip(self.nest, row_major(self.dense_shape), strict=True))
            self.strided = Strided(0, tuple(places.get(v, 0) for v in range(len(sizes))))

    @property
    def dense_shape(self) -> Sizes:
        """The shape of the dense copy."""
        return tuple(self.sizes[variable] for variable in self.nest or ())


def is_identity(operand: Operand, sizes: Sizes) -> bool:
    """Whether an access reads its operand element by element in the order of the domain."""
    reading = Reading(operand, sizes) if operand.origin is not Origin.IMMEDIATE else None
    if reading is None or not reading.is_view:
        return False
    strides = zip(sizes, reading.strided.strides, row_major(sizes), strict=True)
    return reading.strided.offset == 0 and all(a == b for size, a, b in strides if size > 1)


def is_whole(operand: Operand, sizes: Sizes) -> bool:
    """Whether an access reads all of a tensor, element by element."""
    is_of_all = prod(row.size for row in operand.rows) == prod(sizes)
    return is_of_all and is_identity(operand, sizes)


def is_turned(sizes: Sizes, strides: Sequence[int]) -> bool:
    """Whether neighbours in a large tensor are far apart in the domain, so that it is copied first.

    A copy turns squares in registers; a kernel would load element by element.
    """
    axes = [(size, step) for size, step in zip(sizes, strides, strict=True) if size > 1]
    has_neighbours = any(size >= _LEAST_NEIGHBOURS and step == 1 for size, step in axes)
    return has_neighbours and axes[-1][1] > 1 and prod(sizes) >= _LEAST_TURNED


def is_turned_copy(node: Node) -> bool:
    """Whether a map only copies a tensor whose neighbours become far apart."""
    if node.function is not Function.COPY or node.operands[0].origin is Origin.IMMEDIATE:
        return False
    reading = Reading(node.operands[0], node.shape)
    return reading.is_view and is_turned(node.shape, reading.strided.strides)


def is_alias(node: Node) -> bool:
    """Whether an operator copies a whole tensor element by element, so that it need not do so."""
    copies = node.kind.moves and node.elements > 0
    return copies and is_whole(node.operands[0], node.shape)


def as_map(node: Node) -> Node | None:
    """Return a map as it is, a move of one view as a map that copies, and None for others."""
    if node.elements == 0:
        return None
    if node.kind.moves and len(node.operands) == 1 and not is_alias(node):
        is_view = Reading(node.operands[0], node.shape).is_view
        return replace(node, kind=Kind.MAP, function=Function.COPY) if is_view else None
    return node if node.kind is Kind.MAP else None


def as_fused_map(node: Node) -> Node | None:
    """Return a map that computes what a node does; its operands may have another order.

    A contraction of one step multiplies and adds once, which no map of integers does.
    """
    is_float = node.kind is Kind.CONTRACT and not node.multiplies_integers
    if not is_float or node.fold_length != 1 or not node.elements:
        return as_map(node)
    init, *factors = (project(operand, range(len(node.shape))) for operand in node.operands)
    return replace(node, kind=Kind.MAP, fold_shape=(), operands=(*factors, init))
