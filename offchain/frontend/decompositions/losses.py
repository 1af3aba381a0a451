"""Gradients in place of torch's decompositions, which lose NaN or the sign of an infinity."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

MEAN = 1
"""torch's number of the reduction to a mean."""


def smooth_l1_backward(
    gradient: Tensor, x: Tensor, target: Tensor, reduction: int, beta: float
) -> Tensor:
    """Return the gradient of the smooth absolute difference; of a NaN it is NaN."""
    share = 1 / x.numel() if reduction == MEAN and x.numel() else 1.0
    difference = x - target
    scaled = share * gradient
    far, near = scaled * torch.sign(difference), scaled * difference / beta
    return torch.where(difference.abs() >= beta, far, near)


def logit_backward(gradient: Tensor, x: Tensor, eps: float | None = None) -> Tensor:
    """Return the gradient of the logarithm of the odds; zeros of both signs have the same one."""
    low, outside = (0.0, torch.nan) if eps is None else (eps, 0.0)
    is_inside = (x >= low) & (x <= 1 - low)
    return torch.where(is_inside, gradient / (x.abs() * (1 - x)), outside)


def backward_of_nothing(_gradient: Tensor, x: Tensor, *_: Any) -> Any:
    """Return the gradient of a loss of nothing; by the number of elements torch would divide."""
    return NotImplemented if x.numel() else torch.zeros_like(x)


EMPTY: Mapping[str, Callable[..., Any]] = {
    f"aten.{name}_loss_backward.default": backward_of_nothing
    for name in ("mse", "huber", "smooth_l1")
}
"""ATen overload -> decomposition of what has no elements."""

LOSSES: Mapping[str, Callable[..., Any]] = {
    "aten.smooth_l1_loss_backward.default": smooth_l1_backward,
    "aten.logit_backward.default": logit_backward,
}
"""ATen overload -> decomposition."""
