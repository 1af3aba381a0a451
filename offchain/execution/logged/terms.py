"""The operands of chosen elements of an operator, gathered from the tensors that it reads."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from offchain.commitments.tensors import Array
from offchain.execution.accesses import Sizes, find_strided
from offchain.execution.doubles import Doubles
from offchain.execution.indexing import Integers, locate, open_grid
from offchain.execution.logged.stock import Floats
from offchain.execution.views import make_constant
from offchain.programs.graph import Kind, Node, Operand, Origin

Counts = npt.NDArray[np.int64]


class Terms(NamedTuple):
    """The terms of some elements of a sum: products of two factors.

    Attributes:
        first: (P, K), and
        second: (P, K): the factors, binary32 numbers in binary64. A scatter's term that does not
            land on the element is -0, which changes no sum.
        initial: (P,) float32.
        landed: (P,) how many terms land on the element.
    """

    first: Doubles
    second: Doubles
    initial: Floats
    landed: Counts


def read_terms(node: Node, elements: Integers, flats: Sequence[Array | None]) -> Terms:
    """Return the terms of some elements of a sum of floats."""
    rank, steps = len(node.shape), node.fold_length
    variables = [
        *(index[:, None] for index in _unravel(elements, node)),
        *(grid.reshape(1, -1) for grid in _unravel_folds(node)),
    ]
    shape, sizes = (len(elements), steps), node.shape + node.fold_shape
    first = _read(node.operands[1], sizes, variables, flats[1], shape).astype(np.float64)
    second = np.broadcast_to(np.float64(1), shape)
    landed = np.full(len(elements), steps)
    if node.kind is Kind.CONTRACT:
        second = _read(node.operands[2], sizes, variables, flats[2], shape).astype(np.float64)
    elif node.kind is Kind.SCATTER:
        is_matching = np.ones(shape, np.bool_)
        for operand, flat, target in zip(node.operands[2:], flats[2:], node.targets, strict=True):
            is_matching &= _read(operand, sizes, variables, flat, shape) == variables[target]
        first, landed = np.where(is_matching, first, -0.0), is_matching.sum(1)
    starts = [*variables[:rank], *(np.zeros((1, 1), np.int64) for _ in node.fold_shape)]
    initial = _read(node.operands[0], sizes, starts, flats[0], (len(elements), 1))[:, 0]
    return Terms(first, second, initial.astype(np.float32), landed)


def read_operands(node: Node, elements: Integers, flats: Sequence[Array | None]) -> list[Array]:
    """Return what a map reads for some elements: an array of shape (P,) for each operand."""
    variables = _unravel(elements, node)
    shape = (len(elements),)
    return [
        _read(operand, node.shape, variables, flat, shape)
        for operand, flat in zip(node.operands, flats, strict=True)
    ]


def _unravel(elements: Integers, node: Node) -> list[Integers]:
    if not node.shape:
        return []
    return [np.asarray(i, np.int64) for i in np.unravel_index(elements, node.shape)]


def _unravel_folds(node: Node) -> list[Integers]:
    return [np.broadcast_to(grid, node.fold_shape) for grid in open_grid(node.fold_shape)]


def _read(
    operand: Operand,
    sizes: Sizes,
    variables: Sequence[Integers],
    flat: Array | None,
    shape: tuple[int, ...],
) -> Array:
    """Return an operand at these values of the variables, which broadcast to the shape."""
    constant = make_constant(operand.dtype, operand.value).reshape(())
    if operand.origin is Origin.IMMEDIATE or flat is None or not flat.size:
        return np.broadcast_to(constant, shape)
    strided = find_strided(operand.rows, sizes)
    if strided is None:
        indices, inside = locate(operand.rows, variables)
        return np.broadcast_to(np.where(inside, flat.reshape(-1)[indices], constant), shape)
    places = np.full((1,) * len(shape), strided.offset)
    for stride, variable in zip(strided.strides, variables, strict=False):
        if stride:
            places = places + stride * variable
    return np.broadcast_to(flat.reshape(-1).take(places), shape)
