"""The plans of reductions, which fold the rows of a matrix: a strided view or a dense copy."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.kernels.reduce import argmax, argmin, fold
from moot.offchain.backends.cpu.scalars import Apply, get_associative, get_function, widen
from moot.offchain.backends.cpu.views import Reader, make_constant, view
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.planning.accesses import (
    collapse_groups,
    estimate_strides,
    find_strided,
    iterate_slabs,
    project,
    restrict,
    row_major,
)
from moot.offchain.programs.graph import Node, Operand, Origin

_POSITIONS = frozenset({Function.ARGMAX, Function.ARGMIN})

_SLAB_ELEMENTS = 1 << 24
_KERNELS: Mapping[Function, Literal["add", "max", "min"]] = {
    Function.ADD: "add",
    Function.MAX: "max",
    Function.MIN: "min",
}
Fold = Callable[[Array, Array], Array]
"""(matrix, init) -> the fold of every row, from its element of init."""


class Reduction:
    """The plan of one reduction.

    Args:
        node: a reduce node with a positive number of elements and of fold steps.
        fold: folds rows; that of `ordered` if None.
    """

    def __init__(self, node: Node, fold: Fold | None = None) -> None:
        init, self._operand = node.operands
        self._shape = node.shape
        self._dtype = NUMPY_TYPES[node.dtype]
        self._fold = fold or _get_fold(node)
        sizes, rank = node.shape + node.fold_shape, len(node.shape)
        self._init = Reader(project(init, range(rank)), node.shape)
        self._nest = _find_nest(self._operand, sizes, rank)
        whole = [range(size) for size in sizes]
        limit = _SLAB_ELEMENTS if self._nest else prod(sizes)
        self._slabs = list(iterate_slabs(whole, range(rank), _count, limit))
        self._whole = self._plan(whole) if len(self._slabs) == 1 else None

    def _plan(self, ranges: Sequence[range]) -> "_Slab":
        return _Slab(self._operand, self._shape, ranges, self._nest)

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init and of the operand (None for constants)."""
        init, flat = flats
        starts = np.ascontiguousarray(self._init.read(init)).reshape(-1)
        out = buffers.empty((prod(self._shape),), self._dtype)
        for ranges in self._slabs:
            slab = self._whole or self._plan(ranges)
            out[slab.region] = self._fold(slab.read(flat), starts[slab.region])
        return out.reshape(self._shape)


def _count(ranges: Sequence[range]) -> int:
    return prod(map(len, ranges))


class _Slab:
    """The plan of a reduction on a part of its output.

    Attributes:
        region: the part of the output, row-major.
    """

    def __init__(
        self,
        operand: Operand,
        shape: Sequence[int],
        ranges: Sequence[range],
        nest: Sequence[int] | None,
    ) -> None:
        rank, sizes = len(shape), tuple(len(r) for r in ranges)
        self._reader = Reader(restrict(operand, ranges), sizes, nest)
        groups = (range(rank), range(rank, len(sizes)))
        strided = collapse_groups(sizes, groups, self._reader.strided)
        assert strided is not None
        self._strided = strided
        self._matrix = (prod(sizes[:rank]), prod(sizes[rank:]))
        start = sum(s * r.start for s, r in zip(row_major(shape), ranges, strict=False))
        self.region = slice(start, start + self._matrix[0])

    def read(self, flat: Array | None) -> Array:
        """Return the matrix whose rows are folded."""
        return view(self._reader.buffer(flat), self._matrix, self._strided)


def _find_nest(operand: Operand, sizes: tuple[int, ...], rank: int) -> list[int] | None:
    """Return the variables that a dense copy of the matrix nests, or None if a view serves."""
    groups = (range(rank), range(rank, len(sizes)))
    strided = find_strided(operand.rows, sizes)
    if strided is not None and collapse_groups(sizes, groups, strided) is not None:
        return None
    strides = estimate_strides(operand.rows, sizes)
    rows, columns = ([v for v in group if sizes[v] > 1] for group in groups)
    is_column_dense = not rows or (columns and abs(strides[columns[-1]]) <= abs(strides[rows[-1]]))
    return rows + columns if is_column_dense else columns + rows


def _get_fold(node: Node) -> Fold:
    function, dtype = node.function, node.operands[1].dtype
    if function in _POSITIONS:
        return partial(_fold_positions, function)
    apply = get_function(function, (dtype, dtype), dtype)
    init = node.operands[0]
    if dtype is DType.FLOAT32 and init.origin is Origin.IMMEDIATE and function in _KERNELS:
        start = float(make_constant(dtype, init.value)[0])
        return lambda matrix, _: fold(matrix, _KERNELS[function], start)
    associative = get_associative(function, dtype)
    if associative is not None:
        return partial(_fold_associative, associative)
    return partial(_fold_columns, apply)


def _fold_associative(ufunc: np.ufunc, matrix: Array, init: Array) -> Array:
    return np.asarray(ufunc(init, ufunc.reduce(matrix, 1, dtype=init.dtype)))


@np.errstate(all="ignore")
def _fold_columns(apply: Apply, matrix: Array, init: Array) -> Array:
    accumulator, after = init.copy(), np.empty_like(init)
    for column in matrix.T:
        apply(after, accumulator, column)
        accumulator, after = after, accumulator
    return accumulator


def _fold_positions(function: Function, matrix: Array, init: Array) -> Array:
    """Return the first best position of every row, or init's if that is a position and as good."""
    is_max = function is Function.ARGMAX
    if matrix.dtype == NUMPY_TYPES[DType.BFLOAT16]:
        matrix = widen(matrix)
    if matrix.dtype == np.float32:
        floats = np.asarray(matrix, np.float32)
        best = argmax(floats) if is_max else argmin(floats)
    else:
        best = np.argmax(matrix, 1) if is_max else np.argmin(matrix, 1)
    unsigned = init.view(np.uint64)
    starts = np.flatnonzero(unsigned < matrix.shape[1])
    x: Any = matrix[starts, best[starts]]
    y: Any = matrix[starts, unsigned[starts]]
    is_better = (x > y if is_max else x < y) | (np.isnan(x) & ~np.isnan(y))
    out = best.astype(np.int64)
    kept = starts[~is_better]
    out[kept] = init[kept]
    return out
