"""The accumulators of one element of a fold, among which a dispute about it is narrowed."""

from collections.abc import Mapping, Sequence

import numpy as np

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.environment import standard_environment
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.gathers import read_integers
from moot.offchain.backends.cpu.kernels.contraction.gemm import fold_partials
from moot.offchain.backends.cpu.scalars import widen
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array, encode_elements
from moot.offchain.planning.accesses import project, restrict
from moot.offchain.programs.graph import Kind, Node, Operand
from moot.offchain.programs.partials import pack_partials
from moot.offchain.programs.semantics import compute_partials, get_fold, unravel

_UFUNCS: Mapping[Function, np.ufunc] = {
    Function.ADD: np.add,
    Function.MUL: np.multiply,
    Function.MAX: np.maximum,
    Function.MIN: np.minimum,
    Function.AND: np.bitwise_and,
    Function.OR: np.bitwise_or,
}

_Terms = list[tuple[Reader, Array | None]]
"""For each operand but init, its reader over the fold, and its tensor."""


@standard_environment()
def list_partials(node: Node, element: int, operands: Sequence[Array | None]) -> Array:
    """Return the accumulators of one element of a fold, the initial one first.

    Args:
        node: a contract, reduce or scatter node.
        element: index of the output element.
        operands: the tensors of the node's operands; those of constants are not read.

    Returns:
        fold_length + 1 elements of the node's type.
    """
    assert 0 <= element < node.elements
    at_element = [range(c, c + 1) for c in unravel(element, node.shape)]
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


def list_wide_elements(
    node: Node, element: int, operands: Sequence[Array | None], width_bytes: int
) -> Array:
    """Return what `list_partials` does, each with zeros behind it, as wide as accumulators are."""
    raw = encode_elements(list_partials(node, element, operands)).reshape(-1, node.dtype.width)
    wide = np.zeros((len(raw), width_bytes), np.uint8)
    wide[:, : node.dtype.width] = raw
    return wide.reshape(-1).view(f"V{width_bytes}")


def list_defined_partials(
    arithmetic: Arithmetic, node: Node, element: int, operands: Sequence[Array | None]
) -> Array:
    """Return the accumulators of one element of a fold by its definition in an arithmetic."""

    def fetch(place: int, operand: Operand, index: int) -> int:
        del operand
        tensor = operands[place]
        assert tensor is not None
        return int.from_bytes(encode_elements(tensor.reshape(-1)[index : index + 1]), "little")

    partials = compute_partials(arithmetic, node, element, 0, fetch)
    return pack_partials(partials, get_fold(arithmetic, node).width_bytes)


def _contract(node: Node, _: int, start: Array, terms: _Terms) -> Array:
    if node.multiplies_integers:
        factors = (reader.read(flat).reshape(-1) for reader, flat in terms)
        products = np.multiply(*factors, dtype=start.dtype)
        return _accumulate(Function.ADD, node.dtype, np.append(start, products))
    a, b = (np.asarray(reader.read(flat), np.float32).reshape(-1) for reader, flat in terms)
    return fold_partials(a, b, np.float32(start[0]))


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
    accumulators: Array = folded[np.append(0, np.cumsum(matching))]
    return accumulators


def _accumulate(function: Function, dtype: DType, values: Array) -> Array:
    """Return the accumulators of a left fold whose init is the first of the values."""
    ufunc = _UFUNCS[function]
    if function in (Function.MAX, Function.MIN) and dtype is DType.FLOAT32:
        return _accumulate_extremum(ufunc, values)
    accumulators: Array = ufunc.accumulate(values, dtype=values.dtype)  # one after the other
    return accumulators


def _accumulate_extremum(ufunc: np.ufunc, values: Array) -> Array:
    """Return the accumulators of max or min of floats, on integers in the order of the floats."""

    def reorder(bits: Array) -> Array:
        signs = np.right_shift(bits, 31)
        return np.bitwise_xor(bits, np.bitwise_and(signs, 0x7FFFFFFF))

    accumulators: Array = reorder(ufunc.accumulate(reorder(values.view(np.int32)))).view(np.float32)
    return np.where(np.logical_or.accumulate(np.isnan(values)), np.float32(np.nan), accumulators)


def _accumulate_positions(function: Function, start: Array, values: Array) -> Array:
    """Return the accumulators of argmax or argmin."""
    if values.dtype == NUMPY_TYPES[DType.BFLOAT16]:
        values = widen(values)
    ranks = np.unique(values, return_inverse=True)[1]  # NaN is the largest, and the zeros are equal
    if function is Function.ARGMIN:
        ranks = np.where(np.isnan(values), 1, -ranks)
    position = int(start.view(np.uint64)[0])
    is_position = position < len(values)
    before = np.maximum.accumulate(
        np.append(ranks[position] if is_position else ranks.min() - 1, ranks)
    )
    is_better = ranks > before[:-1]
    positions = np.maximum.accumulate(np.where(is_better, np.arange(len(values)), -1))
    return np.append(start, np.where(positions < 0, start, positions))
