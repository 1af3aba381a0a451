"""Rules of sorting: an element's rank counts the elements that come before it, and places it.

The order is total: equal elements keep their order, NaN is above every number. Ranks compare all
pairs of a line. The first elements of a long line are found by rounds of argmax instead.
"""

# ruff: noqa: FBT001, FBT002 - rules have the signatures of ATen's operators

from collections.abc import Mapping

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, RefusalError, Rule
from moot.offchain.frontend.lowering.indexing import gather, scatter_copy
from moot.offchain.frontend.lowering.reductions import argbest, fold, get_neutral
from moot.offchain.frontend.lowering.shapes import join
from moot.offchain.frontend.lowering.views import View, constant, cut, expand, insert, permute

MAX_SORTED = 4_096
"""Elements of a line that is sorted: n elements have n squared pairs."""

MAX_RANKED = 256
"""Elements of a line whose largest are found by ranks; those of longer lines are by rounds."""

MAX_ROUNDS = 64


def sort(b: Builder, x: View, dim: int = -1, descending: bool = False) -> tuple[View, View]:
    """Lower sort: the values in order, and where each of them was."""
    if not x.shape:
        return x, constant(DType.INT64, 0)
    axis = dim % len(x.shape)
    if x.shape[axis] > MAX_SORTED:
        raise RefusalError(f"a sort of {x.shape[axis]} elements; at most {MAX_SORTED}")
    ranks = _rank(b, x, axis, descending=descending)
    positions = expand(_along(b, x.shape[axis], axis, len(x.shape)), x.shape)
    nowhere = constant(DType.INT64, 0, x.shape)
    order = scatter_copy(b, nowhere, axis, ranks, positions)
    return gather(b, x, axis, order), order


def stable_sort(
    b: Builder, x: View, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[View, View]:
    """Lower sort.stable; every sort is."""
    del stable
    return sort(b, x, dim, descending)


def topk(
    b: Builder, x: View, k: int, dim: int = -1, largest: bool = True, _sorted: bool = True
) -> tuple[View, View]:
    """Lower topk: the first k of a sort."""
    if not x.shape:
        return sort(b, x)
    axis = dim % len(x.shape)
    if largest and x.shape[axis] > MAX_RANKED:
        return _select(b, x, k, axis)
    values, order = sort(b, x, axis, largest)
    return cut(values, axis, 0, k), cut(order, axis, 0, k)


def _along(b: Builder, size: int, axis: int, rank: int) -> View:
    """Return the counter 0, 1, ... along one axis of a tensor of this rank."""
    view = b.tensor(np.arange(size, dtype=np.int64))
    return b.reshape(view, [size if d == axis else 1 for d in range(rank)])


def _rank(b: Builder, x: View, axis: int, *, descending: bool) -> View:
    """Return for each element how many of its line come before it, INT64."""
    rank = len(x.shape)
    line = permute(x, [*(d for d in range(rank) if d != axis), axis])
    one, other = insert(line, rank), insert(line, rank - 1)
    less, more = (one, other) if descending else (other, one)
    sooner = b.map(Function.LT, less, more, dtype=DType.BOOL, part="sooner")
    equal = b.map(Function.EQ, one, other, dtype=DType.BOOL, part="equal")
    if x.dtype is DType.FLOAT32:
        has_less, has_more = (
            b.map(Function.NE, v, v, dtype=DType.BOOL, part="nan") for v in (less, more)
        )
        above = b.map(Function.AND, b.map(Function.NOT, has_less), has_more)
        sooner = b.map(Function.OR, sooner, above)
        equal = b.map(Function.OR, equal, b.map(Function.AND, has_less, has_more))
    place = _along(b, x.shape[axis], 0, 1)
    earlier = b.map(Function.LT, insert(place, 0), insert(place, 1), dtype=DType.BOOL)
    tied = b.map(Function.AND, equal, earlier, part="tied")
    counted = b.cast(b.map(Function.OR, sooner, tied), DType.INT64)
    ranks = fold(b, Function.ADD, counted, rank, part="rank")
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return permute(ranks, order)


def _select(b: Builder, x: View, k: int, axis: int) -> tuple[View, View]:
    """Return the k largest and where they were; each round takes the first of the largest left.

    What is taken counts as the least value there is. Once that is the largest, all that are left
    equal it, and the first that is not taken follows.
    """
    if k > MAX_ROUNDS:
        raise RefusalError(
            f"the {k} largest of {x.shape[axis]} elements; at most {MAX_ROUNDS}, "
            f"or of at most {MAX_RANKED}"
        )
    least = constant(x.dtype, get_neutral(Function.MAX, x.dtype))
    place = _along(b, x.shape[axis], axis, len(x.shape))
    taken = constant(DType.BOOL, 0, x.shape)
    positions = []
    for _ in range(k):
        left = b.map(Function.WHERE, taken, least, x, part="left")
        best = argbest(b, Function.ARGMAX, left, axis, keepdim=True)
        is_least = b.map(Function.EQ, gather(b, left, axis, best), least, dtype=DType.BOOL)
        free = argbest(b, Function.ARGMIN, b.cast(taken, DType.INT64), axis, keepdim=True)
        best = b.map(Function.WHERE, is_least, free, best, part="position")
        now = b.map(Function.EQ, place, best, dtype=DType.BOOL)
        taken = b.map(Function.OR, taken, now, part="taken")
        positions.append(best)
    order = join(b, positions, axis) if positions else constant(DType.INT64, 0, b.results[1].shape)
    return gather(b, x, axis, order), order


SORTING: Mapping[str, Rule] = {
    "aten.sort.default": sort,
    "aten.sort.stable": stable_sort,
    "aten.topk.default": topk,
}
"""ATen overload -> rule."""
