"""Distances of points, weight norm and the product of three tensors."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor, linalg


class _Chebyshev(torch.autograd.Function):
    """The largest size along the last axis; each element of that size has the whole gradient.

    The norm of that order shares the gradient out among them, torch's distances do not.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the largest sizes."""
        largest = x.abs().amax(-1)
        ctx.save_for_backward(x, largest)
        return largest

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Return the gradient of the elements."""
        x, largest = ctx.saved_tensors
        is_largest = x.abs() == largest[..., None]
        return torch.where(is_largest, gradients[0][..., None] * x.sign(), 0)


def _measure(differences: Tensor, p: float) -> Tensor:
    """Return the lengths of differences along their last axis."""
    if p == inf and differences.shape[-1]:
        largest: Tensor = _Chebyshev.apply(differences)  # type: ignore[no-untyped-call]  # torch's is untyped
        return largest
    length: Tensor = linalg.vector_norm(differences, p, -1)
    return length


def cdist(x: Tensor, y: Tensor, p: float, _compute_mode: int | None = None) -> Tensor:
    """Return the distances of each row of x to each of y, from their differences."""
    return _measure(x[..., :, None, :] - y[..., None, :, :], p)


def pdist(x: Tensor, p: float = 2) -> Tensor:
    """Return the distances of each row to each later one."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return _measure(x[first] - x[second], p)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """Return the weight of direction v and length g, and the norm of v, all axes but one."""
    axes = [d for d in range(v.ndim) if d != dim % v.ndim]
    norm = linalg.vector_norm(v, 2, axes, keepdim=True)
    return v * (g / norm), norm


def trilinear(
    x: Tensor,
    y: Tensor,
    z: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """Return the sum of a product of three tensors, each with new axes, over some axes."""
    del unroll_dim
    for axes, place in ((expand1, 0), (expand2, 1), (expand3, 2)):
        for axis in sorted(axes):
            x, y, z = (t.unsqueeze(axis) if i == place else t for i, t in enumerate((x, y, z)))
    return (x * y * z).sum(list(sumdim))


def addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta x + alpha times the sum of the products of two batches of matrices."""
    total = (a @ b).sum(0) * alpha
    return total + x * beta if beta else total


def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return the convolution of a line (time, batch, channels) with (width, channels, outputs)."""
    lines, kernel = x.permute(1, 2, 0), weight.permute(2, 1, 0)
    return torch.nn.functional.conv1d(lines, kernel, bias, padding=pad).permute(2, 0, 1)


DISTANCES: Mapping[str, Callable[..., Any]] = {
    "aten._cdist_forward.default": cdist,
    "aten._pdist_forward.default": pdist,
    "aten._weight_norm_interface.default": weight_norm,
    "aten._trilinear.default": trilinear,
    "aten.addbmm.default": addbmm,
    "aten.conv_tbc.default": conv_tbc,
}
"""ATen overload -> composition that autograd sees."""
