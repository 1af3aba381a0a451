"""Rules of pooling: folds over windows; the gradient of a maximum lands where its position says."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, Rule, identity
from moot.offchain.frontend.lowering.convolutions import Geometry, repeat_each
from moot.offchain.frontend.lowering.indexing import emit_scatter
from moot.offchain.frontend.lowering.reductions import emit_position, emit_reduce, get_neutral
from moot.offchain.frontend.lowering.views import View, along, constant
from moot.offchain.programs.graph import Kind, Origin, Row

Sizes = Sequence[int]


def _geometry(
    spatial: int, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes = (1,)
) -> tuple[Geometry, tuple[int, ...]]:
    """Return the geometry and the window; a stride that is not given is the window's size."""
    each = partial(repeat_each, rank=spatial)
    return Geometry(each(stride or kernel), each(padding), each(dilation), 1), each(kernel)


def _window_rows(g: Geometry, x: View, lead: int) -> list[Row]:
    return [*identity(x.shape[:lead]), *g.window(x.shape[lead:], lead, len(x.shape))]


def max_pool(
    b: Builder,
    x: View,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    *_: Any,
    spatial: int,
) -> tuple[View, View]:
    """Lower max_pool with indices: the maximum of each window, and its flat index in the input."""
    shape = b.result.shape
    g, window = _geometry(spatial, kernel, stride, padding, dilation)
    lead = len(shape) - spatial
    rows = _window_rows(g, x, lead)
    best = emit_position(b, Function.ARGMAX, x, rows, shape, window)
    units = [step * prod(x.shape[lead + i + 1 :]) for i, step in enumerate(g.dilation)]
    index = flat_index(b, best, _corners(g, x.shape[lead:], shape[lead:]), window, units)
    largest = emit_reduce(b, Function.MAX, x, rows, shape, window, "max")
    if not any(g.padding) or _is_above_least(b, x):
        return largest, index
    inside = _corners(g, x.shape[lead:], shape[lead:], inside=True)
    least = constant(x.dtype, get_neutral(Function.MAX, x.dtype))
    is_least = b.map(Function.EQ, largest, least, dtype=DType.BOOL, part="is_least")
    return largest, b.map(Function.WHERE, is_least, b.tensor(inside), index, part="index")


def _is_above_least(b: Builder, x: View) -> bool:
    """Return whether a tensor is a maximum with a number, as that of relu, and so never -inf.

    Elsewhere a window may be -inf throughout, which is what padding is taken for.
    """
    node = None if x.node is None else b.nodes[x.node]
    if node is not None and node.function is Function.CONVERT and x.dtype is DType.FLOAT32:
        node = b.nodes[node.operands[0].reference]
    if node is None or node.kind is not Kind.MAP or node.function is not Function.MAX:
        return False
    bounds = [operand.value for operand in node.operands if operand.origin is Origin.IMMEDIATE]
    return any(bound != get_neutral(Function.MAX, node.dtype) for bound in bounds)


def _corners(
    g: Geometry, sizes: Sizes, places: Sizes, *, inside: bool = False
) -> NDArray[np.int64]:
    """Return the flat input index of the first position of each window, or of its first inside."""
    corner = np.zeros(tuple(places), np.int64)
    for d, (stride, padding) in enumerate(zip(g.stride, g.padding, strict=True)):
        first = np.indices(tuple(places))[d] * stride - padding
        if inside:
            first = np.where(first < 0, first % g.dilation[d], first)
        corner += first * prod(sizes[d + 1 :])
    return corner


def flat_index(
    b: Builder, position: View, corner: NDArray[np.int64], window: Sizes, units: Sizes
) -> View:
    """Return the flat input index (INT64) of positions in windows.

    Args:
        b: receives the operators.
        position: row-major, in a window.
        corner: the flat index of each window's first position.
        window: the window's sizes.
        units: what one step along each of them adds to the flat index.
    """
    index, rest = b.tensor(corner), position
    for size, unit in reversed(list(zip(window, units, strict=True))):
        inside = b.map(Function.REMAINDER, rest, b.scalar(size, DType.INT64))
        rest = b.map(Function.FLOOR_DIVIDE, rest, b.scalar(size, DType.INT64))
        step = b.map(Function.MUL, inside, b.scalar(unit, DType.INT64))
        index = b.map(Function.ADD, index, step)
    return index


def max_pool_backward(b: Builder, y: View, x: View, *arguments: Any, spatial: int) -> View:
    """Lower the gradient of max_pool: each output's gradient is added where its maximum was."""
    lead = x.shape[: len(x.shape) - spatial]
    outputs, inputs = prod(y.shape[len(lead) :]), prod(x.shape[len(lead) :])
    indices = b.reshape(arguments[-1], (*lead, outputs))
    source = b.reshape(y, (*lead, outputs))
    rows = [*identity(lead), along(len(lead) + 1, outputs)]
    zeros = constant(x.dtype, 0, (*lead, inputs))
    result = emit_scatter(
        b, Function.ADD, zeros, (source, rows), [(indices, rows)], (len(lead),), (outputs,)
    )
    return b.reshape(result, x.shape)


def _counts(
    g: Geometry, window: Sizes, sizes: Sizes, places: Sizes, *, with_padding: bool
) -> NDArray[np.float32]:
    """Return how many elements each window averages: those of the input, or of the padded input."""
    count = np.ones((), np.int64)
    for size, stride, padding, kernel, outputs in zip(
        sizes, g.stride, g.padding, window, places, strict=True
    ):
        start = np.arange(outputs) * stride - padding
        stop = np.minimum(start + kernel, size + padding)
        if not with_padding:
            start, stop = np.maximum(start, 0), np.minimum(stop, size)
        count = np.multiply.outer(count, stop - start)
    return count.astype(np.float32)


def _divide_by_counts(
    b: Builder,
    total: View,
    geometry: tuple[Geometry, tuple[int, ...]],
    sizes: Sizes,
    places: Sizes,
    options: Sequence[Any],
) -> View:
    """Divide by the counts; `options` are ATen's ceil_mode, count_include_pad, divisor_override."""
    given = dict(zip(("ceil_mode", "with_padding", "divisor"), options, strict=False))
    with_padding, divisor = given.get("with_padding", True), given.get("divisor")
    counts = _counts(*geometry, sizes, places, with_padding=with_padding)
    if divisor is not None or (counts == counts.flat[0]).all():
        return b.map(Function.DIV, total, b.scalar(divisor or float(counts.flat[0]), total.dtype))
    return b.map(Function.DIV, total, b.tensor(counts))


def avg_pool(
    b: Builder,
    x: View,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    *options: Any,
    spatial: int,
) -> View:
    """Lower avg_pool: the sum of each window divided by its count."""
    shape = b.result.shape
    lead = len(shape) - spatial
    geometry = _geometry(spatial, kernel, stride, padding)
    rows = _window_rows(geometry[0], x, lead)
    total = emit_reduce(b, Function.ADD, x, rows, shape, geometry[1], "sum")
    return _divide_by_counts(b, total, geometry, x.shape[lead:], shape[lead:], options)


def avg_pool_backward(
    b: Builder,
    y: View,
    x: View,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    *options: Any,
    spatial: int,
) -> View:
    """Lower the gradient of avg_pool: the sum over the windows that saw an element."""
    lead = len(x.shape) - spatial
    geometry = _geometry(spatial, kernel, stride, padding)
    share = _divide_by_counts(b, y, geometry, x.shape[lead:], y.shape[lead:], options)
    rows = [
        *identity(x.shape[:lead]),
        *geometry[0].inverse(y.shape[lead:], lead, len(x.shape)),
    ]
    return emit_reduce(b, Function.ADD, share, rows, x.shape, geometry[1], "sum")


POOLING: Mapping[str, Rule] = {
    **{f"aten.max_pool{n}d_with_indices.default": partial(max_pool, spatial=n) for n in (2, 3)},
    **{
        f"aten.max_pool{n}d_with_indices_backward.default": partial(max_pool_backward, spatial=n)
        for n in (2, 3)
    },
    **{f"aten.avg_pool{n}d.default": partial(avg_pool, spatial=n) for n in (2, 3)},
    **{
        f"aten.avg_pool{n}d_backward.default": partial(avg_pool_backward, spatial=n) for n in (2, 3)
    },
}
"""ATen overload -> rule."""
