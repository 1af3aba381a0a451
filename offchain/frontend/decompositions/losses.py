"""Gradients of losses, in place of torch's decompositions, which lose what is not a number."""

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


LOSSES: Mapping[str, Callable[..., Any]] = {
    "aten.smooth_l1_loss_backward.default": smooth_l1_backward,
}
"""ATen overload -> decomposition."""
