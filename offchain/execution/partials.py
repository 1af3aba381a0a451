"""All accumulators of one element of a fold, which a dispute about the element is about."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from llvmlite import ir
from numba.core import types

from offchain.arithmetic.evaluate import evaluate
from offchain.arithmetic.functions import DType, Function
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.execution.gathers import read_integers
from offchain.execution.kernels import vectors
from offchain.execution.kernels.compiled import emitted, kernel, reads, writes
from offchain.execution.views import Reader, make_constant, project, restrict
from offchain.programs.graph import Kind, Node
from offchain.programs.semantics import unravel

_SEQUENTIAL: dict[Function, np.ufunc] = {
    Function.ADD: np.add,
    Function.SUB: np.subtract,
    Function.MUL: np.multiply,
    Function.AND: np.bitwise_and,
    Function.OR: np.bitwise_or,
    Function.XOR: np.bitwise_xor,
}
"""Functions whose folds over a vector NumPy accumulates one by one, on every type that they have."""


def partials(node: Node, element: int, operands: Sequence[Array | None], _step: int) -> Array:
    """Return the accumulators of one element of a fold, the initial one first.

    Args:
        node: a contract, reduce or scatter node.
        element: the output element's index.
        operands: the tensors of the node's operands; those of constants are not read.

    Returns:
        fold_length + 1 elements of the node's type.
    """
    coordinates = unravel(element, node.shape)
    at_element = [range(c, c + 1) for c in coordinates]
    assert 0 <= element < node.elements
    ranges = [*at_element, *map(range, node.fold_shape)]
    folded = range(len(node.shape), len(ranges))
    init, *others = [
        project(restrict(operand, ranges), folded if place else ())
        for place, operand in enumerate(node.operands)
    ]
    start = Reader(init, (1,)).read(operands[0]).copy()
    if node.fold_length == 0:
        return start
    terms = [Reader(operand, node.fold_shape) for operand in others]
    fold = {Kind.CONTRACT: _contract, Kind.REDUCE: _reduce, Kind.SCATTER: _scatter}[node.kind]
    with np.errstate(all="ignore"):
        return fold(node, element, start, list(zip(terms, operands[1:], strict=True)))


_Terms = list[tuple[Reader, Array | None]]


def _contract(_: Node, __: int, start: Array, terms: _Terms) -> Array:
    a, b = (reader.read(flat).reshape(-1) for reader, flat in terms)
    accumulators = np.empty(len(a) + 1, np.float32)
    accumulators[0] = start[0]
    _fold_products(a, b, accumulators)
    return accumulators


def _reduce(node: Node, _: int, start: Array, terms: _Terms) -> Array:
    ((reader, flat),) = terms
    values = reader.read(flat).reshape(-1)
    if node.function in (Function.ARGMAX, Function.ARGMIN):
        return _accumulate_positions(node.function, start, values)
    return _accumulate(node.function, node.dtype, np.append(start, values))


def _scatter(node: Node, element: int, start: Array, terms: _Terms) -> Array:
    (source, flat), *indices = terms
    coordinates = unravel(element, node.shape)
    is_matching = np.ones(node.fold_shape, np.bool_)
    for (reader, index), target in zip(indices, node.targets, strict=True):
        is_matching &= read_integers(reader, index) == coordinates[target]
    matching = is_matching.reshape(-1)
    folded = np.append(start, source.read(flat).reshape(-1)[matching])
    if node.function is not Function.COPY:
        folded = _accumulate(node.function, node.dtype, folded)
    return folded[np.append(0, np.cumsum(matching))]


def _accumulate(function: Function, dtype: DType, values: Array) -> Array:
    """Return the left fold of every prefix of the values, none of which is empty."""
    if function in _SEQUENTIAL:
        return _SEQUENTIAL[function].accumulate(values, dtype=values.dtype)
    unsigned = np.ascontiguousarray(values).view(f"u{values.itemsize}").tolist()
    folded = list(
        accumulate(unsigned, lambda x, y: evaluate(function, (dtype, dtype), dtype, (x, y)))
    )
    return np.array(folded, f"u{values.itemsize}").view(values.dtype)


def _accumulate_positions(function: Function, start: Array, values: Array) -> Array:
    """Return the accumulators of argmax or argmin."""
    ranks = np.unique(values, return_inverse=True)[1]  # NaN is the largest, and the zeros are equal
    if function is Function.ARGMIN:
        ranks = np.where(np.isnan(values), 1, -ranks)
    position = int(start.view(f"u{start.itemsize}")[0])
    is_position = position < len(values)
    before = np.maximum.accumulate(
        np.append(ranks[position] if is_position else ranks.min() - 1, ranks)
    )
    is_better = ranks > before[:-1]
    positions = np.maximum.accumulate(np.where(is_better, np.arange(len(values)), -1))
    return np.append(start, np.where(positions < 0, start, positions)).astype(start.dtype)


@emitted(types.float32, types.float32, types.float32, types.float32)
def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return vectors.call(builder, "llvm.fma", [a, b, c])


@kernel(reads(types.float32, 1, "A"), reads(types.float32, 1, "A"), writes(types.float32, 1))
def _fold_products(a: Array, b: Array, accumulators: Array) -> None:
    for k in range(len(a)):
        accumulators[k + 1] = _fma(a[k], b[k], accumulators[k])
