"""Decompositions of the gamma function's logarithm and of its derivative."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

TINY = 1e-30
"""Below it, the gamma function of x is 1 / x."""

SHIFTS = 8
"""How far a small argument is lifted before an asymptotic series is good to single precision."""


def _lift(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return whether x is reflected at 1/2, whether that is below SHIFTS then, and two tensors.

    The first has the arguments of the recurrence down from the second, which is SHIFTS at least.
    """
    is_reflected = x < 0.5
    y = torch.where(is_reflected, 1 - x, x)
    is_small = y < SHIFTS
    shifts = torch.arange(SHIFTS).view(-1, *[1] * x.dim())
    return is_reflected, is_small, y + shifts, torch.where(is_small, y + SHIFTS, y)


def lgamma(x: Tensor) -> Tensor:
    """Return the logarithm of the gamma function's absolute value.

    Stirling's series at a number of at least 8, from which the recurrence leads down; below 1/2,
    the reflection formula.
    """
    x = x.float()
    is_reflected, is_small, steps, lifted = _lift(x)
    inverse = 1 / lifted
    square = inverse * inverse
    series = inverse * (1 / 12 + square * (-1 / 360 + square * (1 / 1260 - square / 1680)))
    result = (lifted - 0.5) * lifted.log() - lifted + (0.5 * math.log(2 * math.pi) + series)
    result = result - torch.where(is_small, steps.log().sum(0), 0)
    mirrored = math.log(math.pi) - torch.sin(math.pi * (x - x.round())).abs().log() - result
    result = torch.where(is_reflected, mirrored, result)
    result = torch.where(x.abs() < TINY, -x.abs().log(), result)
    return torch.where(x.isinf(), x.abs(), result)


def digamma(x: Tensor) -> Tensor:
    """Return the derivative of `lgamma`, in the same way; NaN at negative integers, as torch."""
    x = x.float()
    is_reflected, is_small, steps, lifted = _lift(x)
    inverse = 1 / lifted
    square = inverse * inverse
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    result = lifted.log() - 0.5 * inverse - series
    result = result - torch.where(is_small, (1 / steps).sum(0), 0)
    angle = math.pi * (x - x.round())
    mirrored = result - math.pi * torch.cos(angle) / torch.sin(angle)
    mirrored = torch.where(angle == 0, torch.where(x == 0, -1 / x, torch.nan), mirrored)
    return torch.where(is_reflected, mirrored, result)


GAMMA: Mapping[str, Callable[..., Any]] = {
    "aten.lgamma.default": lgamma,
    "aten.digamma.default": digamma,
}
"""ATen overload -> decomposition."""
