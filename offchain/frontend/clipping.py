"""Gradient clipping, between the backward pass and the optimizer, as `torch.nn.utils` has it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from moot.offchain.frontend.schedules import require_number

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class ClipNorm:
    """Scales all gradients by min(1, max_norm / (norm + epsilon)), as `clip_grad_norm_` does.

    The norm is the root of one sum: each gradient's squares are summed in the order of a reduction,
    and these sums likewise, in the order of the parameters.
    """

    max_norm: float
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        require_number("the largest norm", self.max_norm, 0)
        require_number("epsilon", self.epsilon, 0)

    def __call__(self, gradients: Tensors) -> dict[str, Tensor]:
        """Return the clipped gradients."""
        squares = torch.stack([(g * g).sum() for g in gradients.values()])
        norm = squares.sum().sqrt()
        scale = (torch.full((), self.max_norm) / (norm + self.epsilon)).clamp(max=1)
        return {name: gradient * scale for name, gradient in gradients.items()}


@dataclass(frozen=True, slots=True)
class ClipValue:
    """Limits each element of each gradient to [-limit, limit], as `clip_grad_value_` does."""

    limit: float

    def __post_init__(self) -> None:
        require_number("the largest value", self.limit, 0)

    def __call__(self, gradients: Tensors) -> dict[str, Tensor]:
        """Return the clipped gradients."""
        return {name: g.clamp(-self.limit, self.limit) for name, g in gradients.items()}


Clip = ClipNorm | ClipValue
