"""The plans of reductions of small windows, such as those of pooling."""

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from offchain.arithmetic.functions import DType
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.execution.accesses import find_affine
from offchain.execution.kernels.fused.windows import (
    POSITIONS,
    Bound,
    Kernel,
    WindowFold,
    compile_fold,
)
from offchain.execution.views import make_constant
from offchain.native import buffers, emit
from offchain.native.threads import share
from offchain.programs.graph import Node, Origin, Row

_MOST_STEPS = 64
"""Elements of a window, for each of which there is code."""

_LEAST_COLUMNS = 4
_MOST_APART = 8
"""Elements from a window to that of the next column, beyond which most of a cache line is waste."""

_GRAIN_ELEMENTS = 1 << 18
"""Elements of windows that make another thread worth its start."""


class WindowReduction:
    """The plan of a reduction of windows.

    Args:
        node: a reduce node.
        fold: its form.
    """

    def __init__(self, node: Node, fold: WindowFold) -> None:
        self._shape, self._dtype = node.shape, NUMPY_TYPES[node.dtype]
        self._fold = fold
        self._rows = prod(fold.rows)
        operand = node.operands[1]
        fill = make_constant(operand.dtype, operand.value)
        self._outside = np.repeat(fill, (fold.columns - 1) * fold.column_step + 1)
        self._grain = max(1, _GRAIN_ELEMENTS // (fold.columns * node.fold_length))

    @cached_property
    def _kernel(self) -> Kernel:
        return compile_fold(self._fold)

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, a constant, and of the operand."""
        _, flat = flats
        assert flat is not None
        out, kernel = buffers.empty(self._shape, self._dtype), self._kernel
        source, outside, target = (
            buffers.get_address(array) for array in (flat, self._outside, out)
        )
        share(
            lambda first, stop: kernel.run(source, outside, target, first, stop),
            self._rows,
            self._grain,
        )
        return out


def find_window(node: Node) -> WindowFold | None:
    """Return the form of a reduction of small windows, or None if it has another.

    Args:
        node: a reduce node with a positive number of elements and of fold steps.
    """
    init, operand = node.operands
    rank, sizes = len(node.shape), node.shape + node.fold_shape
    is_position = node.function in POSITIONS
    is_known = (
        is_position and operand.dtype is not DType.BOOL
    ) or node.function in emit.EXPRESSIBLE
    is_plain = init.origin is Origin.IMMEDIATE and operand.origin is not Origin.IMMEDIATE
    if not (is_known and is_plain) or node.fold_length > _MOST_STEPS or not rank:
        return None
    if is_position and init.value < node.fold_length:
        return None
    found, columns = find_affine(operand.rows, sizes), node.shape[-1]
    if found is None or columns < _LEAST_COLUMNS:
        return None
    coordinates, affine = found
    column_step = affine.strides[rank - 1]
    if not 1 <= column_step <= _MOST_APART:
        return None
    steps = list(product(*map(range, node.fold_shape)))
    bounds = [_find_bound(row, rank, steps) for row in coordinates if _is_loose(row, sizes)]
    if any(bound.column and any(bound.rows) for bound in bounds):
        return None
    first, stop = _find_inner([bound for bound in bounds if bound.column], columns)
    return WindowFold(
        dtype=operand.dtype,
        function=node.function,
        init=0 if is_position else init.value,
        rows=node.shape[:-1],
        columns=columns,
        offset=affine.offset,
        row_steps=affine.strides[: rank - 1],
        column_step=column_step,
        shifts=tuple(_add(affine.strides[rank:], step) for step in steps),
        bounds=tuple(bounds),
        inner=(first, stop),
    )


def _add(factors: Sequence[int], values: Sequence[int]) -> int:
    return sum(factor * value for factor, value in zip(factors, values, strict=True))


def _is_loose(row: Row, sizes: Sequence[int]) -> bool:
    ends = [c * (sizes[v] - 1) for v, c in row.terms]
    low, high = (row.offset + sum(e for e in ends if e * sign > 0) for sign in (-1, 1))
    return low < 0 or high >= row.size


def _find_bound(row: Row, rank: int, steps: Sequence[Sequence[int]]) -> Bound:
    terms = dict(row.terms)
    inner = [terms.get(rank + axis, 0) for axis in range(len(steps[0]))]
    return Bound(
        row.size,
        row.offset,
        tuple(terms.get(v, 0) for v in range(rank - 1)),
        terms.get(rank - 1, 0),
        tuple(_add(inner, step) for step in steps),
    )


def _find_inner(bounds: Sequence[Bound], columns: int) -> tuple[int, int]:
    """Return the columns whose windows are inside, as a range; (0, 0) if there are none."""
    inside = [
        column
        for column in range(columns)
        if all(
            0 <= b.offset + b.column * column + shift < b.size for b in bounds for shift in b.shifts
        )
    ]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)
