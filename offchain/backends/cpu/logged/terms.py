"""The operands of chosen elements of an operator, gathered from the tensors that it reads."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.backends.cpu.indexing import Integers, locate, open_grid
from moot.offchain.backends.cpu.kernels.terms import multiply_terms
from moot.offchain.backends.cpu.logged.stock import Floats
from moot.offchain.backends.cpu.views import make_constant
from moot.offchain.commitments.tensors import Array
from moot.offchain.native.doubles import Doubles
from moot.offchain.planning.accesses import Sizes, find_strided
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row

Counts = npt.NDArray[np.int64]

_SAFE_BITS = 62
_FAR = 16
"""Elements from one term to the next from which on each lies in a cache line of its own."""
_SHARERS = 2
"""Elements with the same terms from which on it pays to gather these but once."""


class Terms(NamedTuple):
    """The terms of some elements of a sum.

    Attributes:
        products: (P, K) binary64: the terms, each a binary32 number or a product of two. A
            scatter's term that does not land on the element is -0, which changes no sum.
        initial: (P,) float32.
        landed: (P,) how many terms land on the element.
    """

    products: Doubles
    initial: Floats
    landed: Counts

    def take(self, places: Integers) -> "Terms":
        """Return the terms of some of the elements, by their places."""
        return Terms(self.products[places], self.initial[places], self.landed[places])


class TermReader:
    """A reader of the terms of a sum of floats.

    Args:
        node: a contraction, or a reduction or a scatter that adds.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        factors = 2 if node.kind is Kind.CONTRACT else 1
        sizes = node.shape + node.fold_shape
        fold = _unravel_folds(node)
        first = [grid[:1] * 0 for grid in fold]
        self._init = _Access(node.operands[0], sizes, first)
        self._factors = [_Access(operand, sizes, fold) for operand in node.operands[1:][:factors]]

    def read(self, elements: Integers, flats: Sequence[Array | None]) -> Terms:
        """Return the terms of some elements, given the tensors of the node's operands."""
        node = self._node
        variables = _unravel(elements, node)
        products = np.ones((len(elements), node.fold_length))
        for access, flat in zip(self._factors, flats[1:], strict=False):
            access.multiply(products, variables, flat)
        initial = np.ones((len(elements), 1))
        self._init.multiply(initial, variables, flats[0])
        landed = np.full(len(elements), node.fold_length)
        if node.kind is Kind.SCATTER:
            is_matching = _find_matching(node, variables, flats, products.shape)
            products, landed = np.where(is_matching, products, -0.0), is_matching.sum(1)
        return Terms(products, initial[:, 0].astype(np.float32), landed)

    def arrange(self, elements: Integers) -> Integers:
        """Return an order of some elements in which those that share what is far apart meet."""
        variables = _unravel(elements, self._node)
        far = max(self._factors, key=lambda access: access.stride)
        return np.argsort(far.find_starts(variables, len(elements)), kind="stable")


class _Access:
    """What an operand reads at chosen elements and at given values of the fold's variables.

    Args:
        operand: the operand.
        sizes: the extents of the elements' and of the fold's variables.
        fold: (K,) the values of each variable of the fold.
    """

    def __init__(self, operand: Operand, sizes: Sizes, fold: Sequence[Integers]) -> None:
        self._operand = operand
        self._fill = np.asarray(make_constant(operand.dtype, operand.value), np.float32)
        self._is_constant = operand.origin is Origin.IMMEDIATE
        self._fold = fold
        self._rank = len(sizes) - len(fold)
        strided = find_strided(operand.rows, sizes)
        self._rows: Sequence[Row] = operand.rows
        if strided is not None:
            terms = tuple((v, stride) for v, stride in enumerate(strided.strides) if stride)
            self._rows = [Row(0, strided.offset, terms, 0)]
        self._is_safe = all(_is_safe(row, sizes) for row in self._rows)
        if self._is_safe:
            self._limits = np.array([(row.size, row.divisor) for row in self._rows], np.int64)
            self._offsets = np.array([row.offset for row in self._rows], np.int64)
            self._slopes = np.zeros((self._rank, len(self._rows)), np.int64)
            for place, row in enumerate(self._rows):
                for variable, coefficient in row.terms:
                    if variable < self._rank:
                        self._slopes[variable, place] = coefficient
            length = len(fold[0]) if fold else 1
            places = [_add_up(row, self._rank, fold, length) for row in self._rows]
            self._steps = np.array(places, np.int64).reshape(len(self._rows), length)

    def multiply(
        self, products: Doubles, variables: Sequence[Integers], flat: Array | None
    ) -> None:
        """Multiply products, (P, K), by what the elements of these variables read."""
        is_constant = flat is None or self._is_constant
        tensor = np.asarray(self._fill if is_constant else flat, np.float32).reshape(-1)
        if is_constant or not tensor.size:
            products *= self._fill
        elif self._is_safe and self._rows:
            starts, fill = self._locate(variables, len(products)), np.float32(self._fill[0])
            if self.stride >= _FAR:
                first, places = np.unique(starts[:, 0], return_inverse=True)
                if _SHARERS * len(first) <= len(starts):
                    products *= tensor[first[:, None] + self._steps[0]][places]
                    return
            multiply_terms(tensor, fill, starts, self._steps, self._limits, products)
        else:
            grid = [*(v[:, None] for v in variables), *(v[None] for v in self._fold)]
            indices, inside = locate(self._operand.rows, grid)
            products *= np.where(inside, tensor[indices], self._fill)

    @property
    def stride(self) -> int:
        """How far the second term of an element lies from the first, if no term is out of range."""
        is_plain = self._is_safe and len(self._rows) == 1 and not self._limits[0, 1]
        return int(abs(self._steps[0, :2] @ [-1, 1])) if is_plain and self._steps.size > 1 else 0

    def find_starts(self, variables: Sequence[Integers], count: int) -> Integers:
        """Return where the terms of elements begin, of which there are so many."""
        return self._locate(variables, count)[:, 0] if self.stride else np.zeros(count, np.int64)

    def _locate(self, variables: Sequence[Integers], count: int) -> Integers:
        """Return the coordinates of the first term of each element."""
        starts = np.empty((count, len(self._rows)), np.int64)
        starts[...] = self._offsets
        if self._rank:
            starts += np.stack(variables, 1) @ self._slopes
        return starts


def _is_safe(row: Row, sizes: Sizes) -> bool:
    """Whether no coordinate of a row leaves 64 bits."""
    bound = abs(row.offset) + sum(abs(c) * sizes[v] for v, c in row.terms)
    return max(bound, row.divisor, row.size) >> _SAFE_BITS == 0


def _add_up(row: Row, rank: int, fold: Sequence[Integers], length: int) -> Integers:
    """Return what the variables of the fold add to a coordinate."""
    total = np.zeros(length, np.int64)
    for variable, coefficient in row.terms:
        if variable >= rank:
            total += coefficient * fold[variable - rank]
    return total


def _find_matching(
    node: Node,
    variables: Sequence[Integers],
    flats: Sequence[Array | None],
    shape: tuple[int, ...],
) -> npt.NDArray[np.bool_]:
    """Return which steps of a scatter's fold land on which elements."""
    grid = [*(v[:, None] for v in variables), *(v[None] for v in _unravel_folds(node))]
    is_matching = np.ones(shape, np.bool_)
    for operand, flat, target in zip(node.operands[2:], flats[2:], node.targets, strict=True):
        is_matching &= _read(operand, grid, flat, shape) == grid[target]
    return is_matching


def read_operands(node: Node, elements: Integers, flats: Sequence[Array | None]) -> list[Array]:
    """Return what a map reads for some elements: an array of shape (P,) for each operand."""
    variables = _unravel(elements, node)
    return [
        _read(operand, variables, flat, (len(elements),))
        for operand, flat in zip(node.operands, flats, strict=True)
    ]


def _unravel(elements: Integers, node: Node) -> list[Integers]:
    if not node.shape:
        return []
    return [np.asarray(i, np.int64) for i in np.unravel_index(elements, node.shape)]


def _unravel_folds(node: Node) -> list[Integers]:
    """Return the values of each variable of the fold at each of its steps."""
    return [np.broadcast_to(g, node.fold_shape).reshape(-1) for g in open_grid(node.fold_shape)]


def _read(
    operand: Operand, variables: Sequence[Integers], flat: Array | None, shape: tuple[int, ...]
) -> Array:
    """Return an operand at these values of the variables, which broadcast to the shape."""
    constant = make_constant(operand.dtype, operand.value).reshape(())
    if operand.origin is Origin.IMMEDIATE or flat is None or not flat.size:
        return np.broadcast_to(constant, shape)
    indices, inside = locate(operand.rows, variables)
    return np.broadcast_to(np.where(inside, flat.reshape(-1)[indices], constant), shape)
