"""Tensors seen through other strides, where torch lets a program see the memory's order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Return a permuted tensor's memory through strides: that of its elements in memory's order.

    A tensor that is in row-major order is left to the rule.
    """
    if x.is_contiguous() or x.storage_offset() or not _is_dense(x):
        return NotImplemented
    strides = x.stride()
    order = sorted(range(x.ndim), key=lambda d: (-strides[d], d))
    flat = x.permute(order).reshape(-1)
    return torch.as_strided(flat, size, stride, storage_offset)


def _is_dense(x: Tensor) -> bool:
    """Return whether each element has a place of its own, without gaps."""
    expected = 1
    for size, stride in sorted(zip(x.shape, x.stride(), strict=True), key=lambda p: (p[1], p[0])):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


STRIDES: Mapping[str, Callable[..., Any]] = {"aten.as_strided.default": as_strided}
"""ATen overload -> decomposition."""
