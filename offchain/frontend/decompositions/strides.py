"""Tensors seen through other strides, where torch lets a program see the memory's order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Return a tensor's memory through strides: that of its elements, as one line in its order.

    The rule takes such lines. A tensor with gaps keeps two axes at least, and the rule refuses it.
    """
    if x.ndim == 1 and x.is_contiguous():
        return NotImplemented
    if x.storage_offset() or not _is_dense(x):
        return NotImplemented if x.ndim > 1 else torch.as_strided(x[None], size, stride)
    return torch.as_strided(_flatten(x)[0], size, stride, storage_offset)


def as_strided_scatter(
    x: Tensor,
    source: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    """Return a dense tensor with a source written to its memory through strides."""
    if not _is_dense(x):
        return NotImplemented
    line, order = _flatten(x)
    places = torch.full((), storage_offset or 0)
    for extent, step in zip(size, stride, strict=True):
        places = places[..., None] + torch.arange(extent) * step
    line = line.index_put((places.reshape(-1),), source.reshape(-1))
    back = sorted(range(x.ndim), key=order.__getitem__)
    return line.reshape([x.shape[d] for d in order]).permute(back)


def _flatten(x: Tensor) -> tuple[Tensor, list[int]]:
    """Return a dense tensor's elements in the order of memory, and the order of its axes there."""
    strides = x.stride()
    order = sorted(range(x.ndim), key=lambda d: (-strides[d], d))
    return x.permute(order).reshape(-1), order


def _is_dense(x: Tensor) -> bool:
    """Return whether each element has a place of its own, without gaps."""
    expected = 1
    for size, stride in sorted(zip(x.shape, x.stride(), strict=True), key=lambda p: (p[1], p[0])):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


STRIDES: Mapping[str, Callable[..., Any]] = {
    "aten.as_strided.default": as_strided,
    "aten.as_strided_scatter.default": as_strided_scatter,
}
"""ATen overload -> decomposition."""
