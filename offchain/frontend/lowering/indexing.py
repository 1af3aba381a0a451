"""Rules of gathers and scatters: copies by index tensors, and folds over matching positions."""

# ruff: noqa: FBT001, FBT002 - rules have the signatures of ATen's operators

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, RefusalError, Rule, identity
from moot.offchain.frontend.lowering.reductions import get_neutral
from moot.offchain.frontend.lowering.views import (
    View,
    along,
    constant,
    cut,
    expand,
    insert,
    reshape,
)
from moot.offchain.programs.graph import Kind, Node, Row

Access = tuple[View, Sequence[Row]]

_NO_MATCH = -1
"""An index that no output element has."""


def emit_gather(
    b: Builder, shape: Sequence[int], data: Access, indices: Sequence[Access], fill: int = 0
) -> View:
    """Emit one gather; in the data's coordinates index i is variable len(shape) + i."""
    extents = (*shape, *(None for _ in indices))
    view, coordinates = data
    if view.node is None:
        view = b.move(view)
    operands = (
        b.operand(view, coordinates, extents, fill),
        *(b.operand(index, rows, tuple(shape)) for index, rows in indices),
    )
    return b.emit(Node(Kind.GATHER, Function.COPY, view.dtype, tuple(shape), operands), "gather")


def emit_scatter(
    b: Builder,
    function: Function,
    base: View,
    source: Access,
    indices: Sequence[Access],
    targets: Sequence[int],
    fold_shape: Sequence[int],
) -> View:
    """Emit one scatter over `base`: a fold of the source positions whose indices match."""
    extents = (*base.shape, *fold_shape)
    operands = (
        b.operand(base, identity(base.shape), extents),
        b.operand(*source, extents),
        *(
            b.operand(index, rows, extents, _NO_MATCH % (1 << 8 * index.dtype.width))
            for index, rows in indices
        ),
    )
    node = Node(
        Kind.SCATTER,
        function,
        base.dtype,
        base.shape,
        operands,
        tuple(fold_shape),
        targets=tuple(targets),
    )
    return b.emit(node, "scatter")


def gather(b: Builder, x: View, dim: int, index: View, **_: Any) -> View:
    """Lower gather along one dimension."""
    shape = index.shape
    if not shape:
        return b.reshape(gather(b, b.reshape(x, (1,)), 0, b.reshape(index, (1,))), ())
    rows = [Row(size, 0, ((d, 1),)) for d, size in enumerate(x.shape)]
    axis = dim % len(shape)
    rows[axis] = along(len(shape), x.shape[axis])
    return emit_gather(b, shape, (x, rows), [(index, identity(shape))])


def index_select(b: Builder, x: View, dim: int, index: View) -> View:
    """Lower index_select."""
    shape = b.result.shape
    if not shape:
        return x
    rows = identity(shape)
    axis = dim % len(shape)
    rows[axis] = along(len(shape), x.shape[axis])
    return emit_gather(b, shape, (x, rows), [(index, [along(axis, shape[axis])])])


def embedding(b: Builder, weight: View, index: View, *_: Any, **__: Any) -> View:
    """Lower embedding."""
    shape = (*index.shape, weight.shape[1])
    rows = [along(len(shape), weight.shape[0]), along(len(shape) - 1, weight.shape[1])]
    return emit_gather(b, shape, (weight, rows), [(index, identity(index.shape))])


def embedding_backward(
    b: Builder, gradient: View, index: View, count: int, padding: int, by_frequency: bool
) -> View:
    """Lower embedding_dense_backward: the padding index matches nothing."""
    flat = b.reshape(index, (index.elements,))
    width = gradient.shape[-1]
    source = b.reshape(gradient, (index.elements, width))
    if by_frequency:
        source = _divide_by_frequency(b, source, flat, count)
    if padding >= 0:
        is_padding = b.map(
            Function.EQ, flat, b.scalar(padding, flat.dtype), dtype=DType.BOOL, part="is_padding"
        )
        nothing = b.scalar(_NO_MATCH, flat.dtype)
        flat = b.map(Function.WHERE, is_padding, nothing, flat, part="indices")
    position = along(2, index.elements)
    return emit_scatter(
        b,
        Function.ADD,
        constant(gradient.dtype, 0, (count, width)),
        (source, [position, along(1, width)]),
        [(flat, [position])],
        (0,),
        (index.elements,),
    )


def _divide_by_frequency(b: Builder, source: View, index: View, count: int) -> View:
    """Return rows divided by how often their indices occur."""
    ones = constant(source.dtype, b.scalar(1, source.dtype).bits, index.shape)
    zeros = constant(source.dtype, 0, (count,))
    frequency = _scatter(b, Function.ADD, zeros, 0, index, ones)
    return b.map(Function.DIV, source, insert(gather(b, frequency, 0, index), 1))


def _scatter(b: Builder, function: Function, x: View, dim: int, index: View, source: View) -> View:
    """Scatter along one dimension: element o folds those of its line whose index is o[dim]."""
    if not x.shape:
        one = _scatter(
            b, function, insert(x, 0), 0, b.reshape(index, (1,)), b.reshape(source, (1,))
        )
        return b.reshape(one, ())
    axis, rank = dim % len(x.shape), len(x.shape)
    seen = source
    for d, size in enumerate(index.shape):
        seen = cut(seen, d, 0, size)
    rows = identity(index.shape)
    rows[axis] = along(rank, index.shape[axis])
    fold_shape = (index.shape[axis],)
    return emit_scatter(b, function, x, (seen, rows), [(index, rows)], (axis,), fold_shape)


def scatter_copy(
    b: Builder, x: View, dim: int, index: View, source: View | float, **options: Any
) -> View:
    """Lower scatter: of several positions that match, the last one stays, or all are folded."""
    value = b.cast(source, x.dtype)
    if not isinstance(source, View):
        value = expand(value, index.shape)
    function = _SCATTERS[options.get("reduce", "copy")]
    return _scatter(b, function, x, dim, index, value)


def scatter_add(b: Builder, x: View, dim: int, index: View, source: View) -> View:
    """Lower scatter_add."""
    return _scatter(b, Function.ADD, x, dim, index, source)


_SCATTERS = {"copy": Function.COPY, "add": Function.ADD, "multiply": Function.MUL}

_REDUCTIONS = {
    "sum": Function.ADD,
    "mean": Function.ADD,
    "amax": Function.MAX,
    "amin": Function.MIN,
    "prod": Function.MUL,
}


def scatter_reduce(
    b: Builder,
    x: View,
    dim: int,
    index: View,
    source: View,
    reduce: str,
    *,
    include_self: bool = True,
) -> View:
    """Lower scatter_reduce: a mean is the sum divided by the count; others start from neutral."""
    function = _REDUCTIONS[reduce]
    if include_self and reduce != "mean":
        return _scatter(b, function, x, dim, index, source)
    one = b.scalar(1, DType.INT64)
    ones = constant(DType.INT64, one.bits, source.shape)
    count = _scatter(b, Function.ADD, constant(DType.INT64, 0, x.shape), dim, index, ones)
    if include_self:
        count = b.map(Function.ADD, count, one)
    else:
        zero = b.scalar(0, DType.INT64)
        is_hit = b.map(Function.NE, count, zero, dtype=DType.BOOL, part="is_hit")
        neutral = constant(x.dtype, get_neutral(function, x.dtype))
        x = b.map(Function.WHERE, is_hit, neutral, x, part="start")
    result = _scatter(b, function, x, dim, index, source)
    if reduce != "mean":
        return result
    divide = Function.DIV if x.dtype is DType.FLOAT32 else Function.FLOOR_DIVIDE
    return b.map(divide, result, b.cast(b.map(Function.MAX, count, one), x.dtype))


def _plan(
    b: Builder, x: View, indices: Sequence[View | None]
) -> tuple[list[int], list[View], tuple[int, ...], int]:
    """Return the indexed axes, the indices from 0 and broadcast, their shape, and where it goes."""
    axes = [d for d, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype is DType.BOOL for index in given):
        raise RefusalError("an index that is a mask gives a shape that depends on data; use where")
    joint = np.broadcast_shapes(*(index.shape for index in given))
    wrapped = []
    for axis, index in zip(axes, given, strict=True):
        zero = b.scalar(0, index.dtype)
        is_negative = b.map(Function.LT, index, zero, dtype=DType.BOOL, part="is_negative")
        from_end = b.map(Function.ADD, index, b.scalar(x.shape[axis], index.dtype))
        wrapped.append(
            expand(b.map(Function.WHERE, is_negative, from_end, index, part="indices"), joint)
        )
    together = axes == list(range(axes[0], axes[-1] + 1))
    return axes, wrapped, joint, axes[0] if together else 0


def index_tensor(b: Builder, x: View, indices: Sequence[View | None]) -> View:
    """Lower index: a gather by tensors that broadcast; negative indices count from the end."""
    axes, wrapped, joint, place = _plan(b, x, indices)
    shape = b.result.shape
    rows, variable = [], 0
    for d, size in enumerate(x.shape):
        if d in axes:
            rows.append(along(len(shape) + axes.index(d), size))
            continue
        if variable == place:
            variable += len(joint)
        rows.append(along(variable, size))
        variable += 1
    joint_rows = [along(place + i, size) for i, size in enumerate(joint)]
    return emit_gather(b, shape, (x, rows), [(index, joint_rows) for index in wrapped])


def index_put(
    b: Builder,
    x: View,
    indices: Sequence[View | None],
    values: View,
    accumulate: bool = False,
    *_: Any,
) -> View:
    """Lower index_put: a scatter over all positions of the indices; a mask takes one value only."""
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype is DType.BOOL:
        return _put_masked(b, x, indices[0], values, accumulate=accumulate)
    axes, wrapped, joint, place = _plan(b, x, indices)
    rest = [size for d, size in enumerate(x.shape) if d not in axes]
    full = (*rest[:place], *joint, *rest[place:])
    source = expand(b.cast(values, x.dtype), full)
    rank = len(x.shape)
    kept = [along(d, size) for d, size in enumerate(x.shape) if d not in axes]
    fold = [along(rank + i, size) for i, size in enumerate(joint)]
    rows = [*kept[:place], *fold, *kept[place:]]
    return emit_scatter(
        b,
        Function.ADD if accumulate else Function.COPY,
        x,
        (source, rows),
        [(index, fold) for index in wrapped],
        axes,
        joint or (1,),
    )


def put(b: Builder, x: View, index: View, source: View, accumulate: bool = False) -> View:
    """Lower put: a scatter over positions in the flat tensor."""
    flat = b.reshape(x, (x.elements,))
    values = b.reshape(source, (source.elements,))
    positions = b.reshape(index, (index.elements,))
    return b.reshape(index_put(b, flat, [positions], values, accumulate), x.shape)


def _put_masked(b: Builder, x: View, mask: View, values: View, *, accumulate: bool) -> View:
    if values.elements != 1:
        raise RefusalError("values put through a mask depend on data; use where")
    value = b.cast(b.reshape(values, ()), x.dtype)
    if accumulate:
        value = b.map(Function.ADD, x, value)
    wide = reshape(mask, (*mask.shape, *(1 for _ in x.shape[len(mask.shape) :])))
    assert wide is not None
    return b.map(Function.WHERE, expand(wide, x.shape), value, x)


INDEXING: Mapping[str, Rule] = {
    "aten.gather.default": gather,
    "aten.index_select.default": index_select,
    "aten.embedding.default": embedding,
    "aten.embedding_dense_backward.default": embedding_backward,
    "aten.scatter.src": scatter_copy,
    "aten.scatter.value": scatter_copy,
    "aten.scatter.reduce": scatter_copy,
    "aten.scatter.value_reduce": scatter_copy,
    "aten.scatter_add.default": scatter_add,
    "aten.scatter_reduce.two": scatter_reduce,
    **dict.fromkeys(("aten.index.Tensor", "aten._unsafe_index.Tensor"), index_tensor),
    **dict.fromkeys(("aten.index_put.default", "aten._unsafe_index_put.default"), index_put),
    "aten.put.default": put,
}
"""ATen overload -> rule."""
