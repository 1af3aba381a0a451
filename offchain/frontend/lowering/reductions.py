"""Reductions: folds over any axes, long ones in two stages of a fixed shape.

K reduced elements are folded in W lanes, the smallest power of two at or above the root of K: stage
one folds the rows r of x[r * W + lane], stage two folds the lanes in ascending order. The lanes run
along the innermost group of neighbouring reduced axes; the other reduced axes lead the fold of
stage one. The arrangement follows from the shape alone.
"""

# ruff: noqa: FBT001, FBT002 - rules have the signatures of ATen's operators

from collections.abc import Mapping, Sequence
from math import isqrt, prod
from typing import Any

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, RefusalError, Rule, identity
from moot.offchain.frontend.lowering.views import View, along, constant, insert, permute, reshape
from moot.offchain.programs.graph import Kind, Node, Row, immediate

LEAST_SPLIT = 32
"""Folds of fewer elements are not split."""

MAX_FOLD_DIMENSIONS = 4

MAX_CUMULATIVE = 4_096
"""A cumulative fold of n elements has n squared terms."""

_INFINITY = {Function.MAX: 0xFF800000, Function.MIN: 0x7F800000}
_NEUTRAL = {Function.ADD: 0, Function.MUL: 1, Function.AND: -1, Function.OR: 0}


def get_neutral(function: Function, dtype: DType) -> int:
    """Return the bits that a fold starts from and reads out of range."""
    if dtype is DType.BOOL:
        return int(function in {Function.AND, Function.MIN})
    if function in _INFINITY:
        if dtype is DType.FLOAT32:
            return _INFINITY[function]
        least = 1 << (8 * dtype.width - 1)
        return least if function is Function.MAX else least - 1
    if dtype is DType.FLOAT32:
        return 0x3F800000 if function is Function.MUL else 0
    return _NEUTRAL[function] % (1 << 8 * dtype.width)


def get_lanes(elements: int, group: int) -> int:
    """Return W for K reduced elements of which `group` lie along the innermost group of axes."""
    root = isqrt(max(elements - 1, 0)) + 1
    return 1 << (min(root, group) - 1).bit_length()


def normalize(dims: Sequence[int] | int | None, rank: int) -> list[int]:
    """Return axes as ascending numbers from 0; none or an empty list means all of them."""
    if isinstance(dims, int):
        dims = [dims]
    if not dims:
        return list(range(rank))
    return sorted({d % max(rank, 1) for d in dims}) if rank else []


def fold(
    builder: Builder,
    function: Function,
    view: View,
    dims: Sequence[int] | int | None = None,
    *,
    keepdim: bool = False,
    part: str = "",
) -> View:
    """Return the fold of a view over axes, in the order that this module explains."""
    axes = normalize(dims, len(view.shape))
    kept = [d for d in range(len(view.shape)) if d not in axes]
    result = _fold(builder, function, view, kept, axes, part or function.name.lower())
    for d in axes if keepdim else ():
        result = insert(result, d)
    return result


def _fold(
    builder: Builder, function: Function, view: View, kept: list[int], axes: list[int], part: str
) -> View:
    long = [d for d in axes if view.shape[d] != 1]
    kept_shape = tuple(view.shape[d] for d in kept)
    if not long:
        seen = reshape(view, kept_shape)
        assert seen is not None
        return seen
    between = {d for d in kept if view.shape[d] != 1}
    group = [d for d in long if not any(d < k < long[-1] for k in between)]
    lead = long[: len(long) - len(group)]
    if len(lead) >= MAX_FOLD_DIMENSIONS:
        raise RefusalError(
            f"a reduction over {len(lead) + 1} groups of axes; permute them together"
        )
    ordered = permute(view, [*kept, *lead, *group])
    lead_shape = tuple(view.shape[d] for d in lead)
    grouped = builder.reshape(
        ordered, (*kept_shape, *lead_shape, prod(view.shape[d] for d in group))
    )
    return _stages(builder, function, grouped, len(kept), part)


def _stages(builder: Builder, function: Function, view: View, rank: int, part: str) -> View:
    """Fold all axes from `rank` on, of which the last is split into lanes."""
    *outer, group = view.shape
    kept, lead = tuple(outer[:rank]), tuple(outer[rank:])
    elements = prod(lead) * group
    coordinates = identity(view.shape)
    if elements < LEAST_SPLIT:
        return emit_reduce(builder, function, view, coordinates, kept, (*lead, group), part)
    lanes = get_lanes(elements, group)
    rows = -(-group // lanes)
    first = rank + 1
    coordinates[rank:-1] = [along(first + i, size) for i, size in enumerate(lead)]
    coordinates[-1] = Row(group, 0, ((rank, 1), (first + len(lead), lanes)))
    shape = (*kept, lanes)
    partial = emit_reduce(
        builder, function, view, coordinates, shape, (*lead, rows), f"{part}.lanes"
    )
    return emit_reduce(builder, function, partial, identity(shape), kept, (lanes,), part)


def emit_reduce(
    builder: Builder,
    function: Function,
    view: View,
    coordinates: Sequence[Row],
    shape: tuple[int, ...],
    fold_shape: tuple[int, ...],
    part: str,
) -> View:
    """Emit one reduce operator that reads a view at coordinates of the output and the fold."""
    neutral = get_neutral(function, view.dtype)
    operand = builder.operand(view, coordinates, (*shape, *fold_shape), neutral)
    start = immediate(view.dtype, neutral)
    node = Node(Kind.REDUCE, function, view.dtype, shape, (start, operand), fold_shape)
    return builder.emit(node, part)


def emit_position(
    builder: Builder,
    function: Function,
    view: View,
    coordinates: Sequence[Row],
    shape: tuple[int, ...],
    fold_shape: tuple[int, ...],
) -> View:
    """Emit an argmax or argmin: the INT64 position, in the fold, of the best element."""
    best = get_neutral(Function.MAX if function is Function.ARGMAX else Function.MIN, view.dtype)
    operand = builder.operand(view, coordinates, (*shape, *fold_shape), best)
    start = immediate(DType.INT64, (1 << 64) - 1)
    node = Node(Kind.REDUCE, function, DType.INT64, shape, (start, operand), fold_shape)
    return builder.emit(node, function.name.lower())


def argbest(
    builder: Builder, function: Function, view: View, dim: int | None, *, keepdim: bool = False
) -> View:
    """Return the position of the best element along an axis, or in the whole tensor."""
    shape = view.shape
    axis = 0 if dim is None else dim % max(len(shape), 1)
    if dim is None or not shape:
        view = builder.reshape(view, (view.elements,))
    kept = [d for d in range(len(view.shape)) if d != axis]
    ordered = permute(view, [*kept, axis])
    kept_shape, fold_shape = ordered.shape[:-1], ordered.shape[-1:]
    coordinates = identity(ordered.shape)
    result = emit_position(builder, function, ordered, coordinates, kept_shape, fold_shape)
    if not keepdim or not shape:
        return result
    return builder.reshape(result, (1,) * len(shape)) if dim is None else insert(result, axis)


def count_of(view: View, dims: Sequence[int] | int | None) -> int:
    """Return the number of elements that a reduction over these axes folds."""
    return prod(view.shape[d] for d in normalize(dims, len(view.shape)))


def lower_sum(
    b: Builder,
    view: View,
    dims: Sequence[int] | None = None,
    keepdim: bool = False,
    **_: object,
) -> View:
    """Lower sum: booleans and 32-bit integers are summed as INT64, as ATen does."""
    return fold(b, Function.ADD, b.cast(view, b.result.dtype), dims, keepdim=keepdim)


def lower_mean(
    b: Builder,
    view: View,
    dims: Sequence[int] | None = None,
    keepdim: bool = False,
    **_: object,
) -> View:
    """Lower mean: the sum divided by the count."""
    total = fold(b, Function.ADD, b.cast(view, b.result.dtype), dims, keepdim=keepdim, part="sum")
    return b.map(Function.DIV, total, b.scalar(count_of(view, dims), total.dtype))


def lower_var_mean(
    b: Builder,
    view: View,
    dims: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    **_: object,
) -> tuple[View, View]:
    """Lower var_mean: the mean, and the mean square of the differences from it."""
    count = count_of(view, dims)
    total = fold(b, Function.ADD, view, dims, keepdim=True, part="mean.sum")
    mean = b.map(Function.DIV, total, b.scalar(count, view.dtype), part="mean")
    difference = b.map(Function.SUB, view, mean)
    square = b.map(Function.MUL, difference, difference)
    squares = fold(b, Function.ADD, square, dims, keepdim=True, part="sum")
    divisor = max(count - (1 if correction is None else correction), 0)
    variance = b.map(Function.DIV, squares, b.scalar(divisor, view.dtype))
    shape = b.result.shape
    return b.reshape(variance, shape), b.reshape(mean, shape)


def extreme(
    b: Builder, function: Function, view: View, dims: Sequence[int] | int | None, *, keepdim: bool
) -> View:
    """Return the largest or the smallest elements; of booleans they are any and all."""
    actual = function
    if view.dtype is DType.BOOL:
        actual = Function.OR if function is Function.MAX else Function.AND
    return fold(b, actual, view, dims, keepdim=keepdim)


def lower_extreme(function: Function) -> Rule:
    """Return the rule of amax or amin."""

    def rule(b: Builder, view: View, dims: Any = None, keepdim: bool = False) -> View:
        return extreme(b, function, view, dims, keepdim=keepdim)

    return rule


def lower_logical(function: Function) -> Rule:
    """Return the rule of any or all."""

    def rule(b: Builder, view: View, dims: Any = None, keepdim: bool = False) -> View:
        return fold(b, function, b.cast(view, DType.BOOL), dims, keepdim=keepdim)

    return rule


def lower_argbest(function: Function) -> Rule:
    """Return the rule of argmax or argmin."""

    def rule(b: Builder, view: View, dim: int | None = None, keepdim: bool = False) -> View:
        return argbest(b, function, view, dim, keepdim=keepdim)

    return rule


def lower_best(function: Function, position: Function) -> Rule:
    """Return the rule of max.dim or min.dim: values and positions."""

    def rule(b: Builder, view: View, dim: int, keepdim: bool = False) -> tuple[View, View]:
        values = extreme(b, function, view, dim, keepdim=keepdim)
        return values, argbest(b, position, view, dim, keepdim=keepdim)

    return rule


def lower_prod(
    b: Builder, view: View, dim: int | None = None, keepdim: bool = False, **_: object
) -> View:
    """Lower prod."""
    return fold(b, Function.MUL, b.cast(view, b.result.dtype), dim, keepdim=keepdim)


def lower_cumulative(function: Function) -> Rule:
    """Return the rule of cumsum or cumprod.

    Element i folds x[i - (n - 1) + r] over r; before the first element, x is neutral.
    """

    def rule(b: Builder, view: View, dim: int, **_: object) -> View:
        view = b.cast(view, b.result.dtype)
        if not view.shape:
            return view
        axis = dim % len(view.shape)
        size = view.shape[axis]
        if size > MAX_CUMULATIVE:
            raise RefusalError(f"a cumulative fold over {size} elements; at most {MAX_CUMULATIVE}")
        coordinates = identity(view.shape)
        coordinates[axis] = Row(size, 1 - size, ((axis, 1), (len(view.shape), 1)))
        return emit_reduce(b, function, view, coordinates, view.shape, (size,), "cumulative")

    return rule


def lower_running_best(function: Function, position: Function) -> Rule:
    """Return the rule of cummax or cummin: running bests, and the last place of each.

    Element i folds x[i - r] over r, so that of equal elements the latest comes first.
    """

    def rule(b: Builder, view: View, dim: int) -> tuple[View, View]:
        if not view.shape:
            return view, constant(DType.INT64, 0)
        axis = dim % len(view.shape)
        size = view.shape[axis]
        if size > MAX_CUMULATIVE:
            raise RefusalError(f"a cumulative fold over {size} elements; at most {MAX_CUMULATIVE}")
        coordinates = identity(view.shape)
        coordinates[axis] = Row(size, 0, ((axis, 1), (len(view.shape), -1)))
        values = emit_reduce(b, function, view, coordinates, view.shape, (size,), "cumulative")
        back = emit_position(b, position, view, coordinates, view.shape, (size,))
        places = b.tensor(np.arange(size, dtype=np.int64))
        line = b.reshape(places, [size if d == axis else 1 for d in range(len(view.shape))])
        return values, b.map(Function.SUB, line, back, part="place")

    return rule


REDUCTIONS: Mapping[str, Rule] = {
    **dict.fromkeys(("aten.sum.default", "aten.sum.dim_IntList"), lower_sum),
    **dict.fromkeys(("aten.mean.default", "aten.mean.dim"), lower_mean),
    **dict.fromkeys(("aten.prod.default", "aten.prod.dim_int"), lower_prod),
    "aten.var_mean.correction": lower_var_mean,
    **dict.fromkeys(("aten.amax.default", "aten.max.default"), lower_extreme(Function.MAX)),
    **dict.fromkeys(("aten.amin.default", "aten.min.default"), lower_extreme(Function.MIN)),
    "aten.max.dim": lower_best(Function.MAX, Function.ARGMAX),
    "aten.min.dim": lower_best(Function.MIN, Function.ARGMIN),
    "aten.argmax.default": lower_argbest(Function.ARGMAX),
    "aten.argmin.default": lower_argbest(Function.ARGMIN),
    **dict.fromkeys(
        ("aten.any.default", "aten.any.dim", "aten.any.dims"), lower_logical(Function.OR)
    ),
    **dict.fromkeys(
        ("aten.all.default", "aten.all.dim", "aten.all.dims"), lower_logical(Function.AND)
    ),
    "aten.cumsum.default": lower_cumulative(Function.ADD),
    "aten.cumprod.default": lower_cumulative(Function.MUL),
    "aten.cummax.default": lower_running_best(Function.MAX, Function.ARGMAX),
    "aten.cummin.default": lower_running_best(Function.MIN, Function.ARGMIN),
}
"""ATen overload -> rule."""
