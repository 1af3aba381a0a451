"""Rules that rearrange elements: views where strides can say it, moves where they cannot."""

from collections.abc import Mapping, Sequence
from typing import Any

from moot.offchain.arithmetic.functions import Function
from moot.offchain.frontend.lowering.builder import Builder, RefusalError, Rule, identity
from moot.offchain.frontend.lowering.views import (
    View,
    constant,
    cut,
    drop,
    expand,
    insert,
    permute,
    reshape,
)
from moot.offchain.programs.graph import Kind, Node, Row
from moot.offchain.programs.limits import MAX_OPERANDS


def to_result_shape(b: Builder, x: View, *_: Any, **__: Any) -> View:
    """Lower the overloads that only change the shape."""
    return b.reshape(x, b.result.shape)


def lower_expand(b: Builder, x: View, *_: Any, **__: Any) -> View:
    """Lower expand."""
    return expand(x, b.result.shape)


def lower_permute(_: Builder, x: View, order: Sequence[int]) -> View:
    """Lower permute."""
    return permute(x, [d % max(len(x.shape), 1) for d in order])


def transpose(_: Builder, x: View, first: int = 0, second: int = 1) -> View:
    """Lower transpose, and t."""
    order = list(range(len(x.shape)))
    if len(order) > 1:
        order[first], order[second] = order[second], order[first]
    return permute(x, order)


def lower_slice(
    _: Builder,
    x: View,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> View:
    """Lower slice."""
    positions = range(x.shape[dim])[slice(start, end, step)]
    return cut(x, dim % len(x.shape), positions.start, len(positions), step)


def select(_: Builder, x: View, dim: int, index: int) -> View:
    """Lower select."""
    return drop(x, dim % len(x.shape), index % x.shape[dim])


def split_with_sizes(_: Builder, x: View, sizes: Sequence[int], dim: int = 0) -> tuple[View, ...]:
    """Lower split_with_sizes."""
    axis = dim % len(x.shape)
    return tuple(cut(x, axis, sum(sizes[:i]), size) for i, size in enumerate(sizes))


def split(b: Builder, x: View, size: int, dim: int = 0) -> tuple[View, ...]:
    """Lower split: pieces of one size, of which the last may be smaller."""
    sizes = [min(size, x.shape[dim] - start) for start in range(0, x.shape[dim], size)]
    return split_with_sizes(b, x, sizes or [0], dim)


def unbind(_: Builder, x: View, dim: int = 0) -> tuple[View, ...]:
    """Lower unbind."""
    axis = dim % len(x.shape)
    return tuple(drop(x, axis, index) for index in range(x.shape[axis]))


def flip(_: Builder, x: View, dims: Sequence[int]) -> View:
    """Lower flip: negative strides."""
    for d in {d % len(x.shape) for d in dims}:
        x = cut(x, d, x.shape[d] - 1, x.shape[d], -1)
    return x


def diagonal(_: Builder, x: View, offset: int = 0, dim1: int = 0, dim2: int = 1) -> View:
    """Lower diagonal: a new last dimension that walks along two."""
    rank = len(x.shape)
    first, second = dim1 % rank, dim2 % rank
    start = (max(-offset, 0), max(offset, 0))
    count = max(min(x.shape[first] - start[0], x.shape[second] - start[1]), 0)
    corner = cut(cut(x, first, start[0], count), second, start[1], count)
    stride = x.strides[first] + x.strides[second]
    rest = permute(corner, [d for d in range(rank) if d not in (first, second)])
    return View(
        x.dtype,
        (*rest.shape, count),
        (*rest.strides, stride if x.node is not None else 0),
        corner.offset,
        x.node,
        x.size,
        x.bits,
    )


def unfold(_: Builder, x: View, dim: int, size: int, step: int) -> View:
    """Lower unfold: windows that overlap, as a new last dimension."""
    if not x.shape:
        return insert(x, 0)
    axis = dim % len(x.shape)
    windows = cut(x, axis, 0, (x.shape[axis] - size) // step + 1, step)
    return View(
        x.dtype,
        (*windows.shape, size),
        (*windows.strides, x.strides[axis]),
        x.offset,
        x.node,
        x.size,
        x.bits,
    )


def as_strided(
    b: Builder, x: View, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> View:
    """Lower as_strided of an operator's whole output, or of a line, which is in memory's order."""
    if x.node is None:
        return constant(x.dtype, x.bits, size)
    if len(x.shape) == 1 and not x.is_contiguous:
        x = b.move(x)
    if not x.is_contiguous:
        raise RefusalError("as_strided of a tensor that is itself a view; use reshape or slices")
    return View(x.dtype, tuple(size), tuple(stride), offset or 0, x.node, x.size, x.bits)


def repeat(b: Builder, x: View, repeats: Sequence[int]) -> View:
    """Lower repeat: a dimension of repetitions before each, then a reshape."""
    lead = len(repeats) - len(x.shape)
    padded = reshape(x, (1,) * lead + x.shape)
    assert padded is not None
    for d in reversed(range(len(repeats))):
        padded = insert(padded, d)
    sizes = padded.shape[1::2]
    both = [n for pair in zip(repeats, sizes, strict=True) for n in pair]
    return b.reshape(expand(padded, both), b.result.shape)


def assemble(
    b: Builder,
    shape: Sequence[int],
    pieces: Sequence[tuple[View, Sequence[Row]]],
    fill: int,
    part: str,
) -> View:
    """Emit one move that copies each element from the first piece that is in range."""
    operands = tuple(b.operand(view, rows, tuple(shape), fill) for view, rows in pieces)
    dtype = pieces[0][0].dtype
    return b.emit(Node(Kind.MOVE, Function.COPY, dtype, tuple(shape), operands), part)


def shifted(shape: Sequence[int], dim: int, start: int, size: int, step: int = 1) -> list[Row]:
    """Return the coordinates of a piece of `size` elements that starts at `start`, `step` apart."""
    rows = identity(shape)
    rows[dim] = Row(size, -start, ((dim, 1),), step)
    return rows


def cat(b: Builder, tensors: Sequence[View], dim: int = 0) -> View:
    """Lower cat; tensors without any element count for nothing."""
    dtype, shape = b.result
    pieces = [b.cast(tensor, dtype) for tensor in tensors if tensor.elements]
    return join(b, pieces, dim % len(shape)) if pieces else constant(dtype, 0, shape)


def join(b: Builder, pieces: Sequence[View], dim: int) -> View:
    """Return pieces one after the other: moves of up to eight of them each."""
    while len(pieces) > 1:
        groups = [pieces[i : i + MAX_OPERANDS] for i in range(0, len(pieces), MAX_OPERANDS)]
        pieces = [_join(b, group, dim) for group in groups]
    return pieces[0]


def _join(b: Builder, pieces: Sequence[View], dim: int) -> View:
    if len(pieces) == 1:
        return pieces[0]
    sizes = [piece.shape[dim] for piece in pieces]
    shape = list(pieces[0].shape)
    shape[dim] = sum(sizes)
    placed = [
        (piece, shifted(shape, dim, sum(sizes[:i]), sizes[i])) for i, piece in enumerate(pieces)
    ]
    return assemble(b, shape, placed, 0, "cat")


def overlay(b: Builder, base: View, piece: View, coordinates: Sequence[Row], part: str) -> View:
    """Return `base` with a piece copied over it; a constant base is only the piece's fill."""
    pieces = [(piece, coordinates)]
    if base.node is not None:
        pieces.append((base, identity(base.shape)))
    return assemble(b, base.shape, pieces, base.bits if base.node is None else 0, part)


def slice_scatter(
    b: Builder,
    base: View,
    piece: View,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> View:
    """Lower slice_scatter."""
    axis = dim % len(base.shape)
    positions = range(base.shape[axis])[slice(start, end, step)]
    if not positions:
        return base
    rows = shifted(base.shape, axis, positions.start, len(positions), step)
    return overlay(b, base, b.cast(piece, base.dtype), rows, "slice_scatter")


def select_scatter(b: Builder, base: View, piece: View, dim: int, index: int) -> View:
    """Lower select_scatter."""
    axis = dim % len(base.shape)
    rows = shifted(base.shape, axis, index % base.shape[axis], 1)
    return overlay(b, base, b.cast(insert(piece, axis), base.dtype), rows, "select_scatter")


def diagonal_scatter(
    b: Builder, base: View, piece: View, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> View:
    """Lower diagonal_scatter: a coordinate that may only be 0, row + offset - column, finds it."""
    first, second = dim1 % len(base.shape), dim2 % len(base.shape)
    rows = [row for d, row in enumerate(identity(base.shape)) if d not in (first, second)]
    rows.append(Row(piece.shape[-1], min(offset, 0), ((first, 1),)))
    on_diagonal = sorted([(first, 1), (second, -1)])
    rows.append(Row(1, offset, tuple(on_diagonal)))
    return overlay(b, base, insert(piece, len(piece.shape)), rows, "diagonal_scatter")


def diagonal_backward(
    b: Builder, gradient: View, sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> View:
    """Lower diagonal_backward."""
    zeros = constant(gradient.dtype, 0, sizes)
    return diagonal_scatter(b, zeros, gradient, offset, dim1, dim2)


def roll(b: Builder, x: View, shifts: Sequence[int], dims: Sequence[int] = ()) -> View:
    """Lower roll: along each dimension, the end before the beginning."""
    if not dims:
        return b.reshape(roll(b, b.reshape(x, (x.elements,)), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        start = -shift % max(size, 1)
        pieces = [lower_slice(b, x, dim, start), lower_slice(b, x, dim, 0, start)]
        x = _join(b, pieces, dim % len(x.shape))
    return x


SHAPES: Mapping[str, Rule] = {
    **{
        f"aten.{name}": to_result_shape
        for name in (
            *("view.default", "_unsafe_view.default", "_reshape_alias.default"),
            *("unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims"),
        )
    },
    "aten.expand.default": lower_expand,
    "aten.permute.default": lower_permute,
    "aten.transpose.int": transpose,
    "aten.t.default": transpose,
    "aten.slice.Tensor": lower_slice,
    "aten.select.int": select,
    "aten.split.Tensor": split,
    "aten.split_with_sizes.default": split_with_sizes,
    "aten.unbind.int": unbind,
    "aten.flip.default": flip,
    "aten.diagonal.default": diagonal,
    "aten.unfold.default": unfold,
    "aten.as_strided.default": as_strided,
    "aten.repeat.default": repeat,
    "aten.cat.default": cat,
    "aten.slice_scatter.default": slice_scatter,
    "aten.select_scatter.default": select_scatter,
    "aten.diagonal_scatter.default": diagonal_scatter,
    "aten.diagonal_backward.default": diagonal_backward,
    "aten.roll.default": roll,
}
"""ATen overload -> rule."""
