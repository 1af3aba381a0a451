"""Functions of the sign of zero, choices between numbers and NaN, and scaling by powers of two."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

SMALL, LARGE = 2.0**-60, 2.0**60
"""Between these, squares neither overflow nor vanish beside one another."""

UP, DOWN = 2.0**90, 2.0**-66
"""What brings numbers below and above them between them, exactly."""


def signbit(x: Tensor) -> Tensor:
    """Return whether x is negative: 1 / x is, also for -0; a NaN counts as positive."""
    if not x.is_floating_point():
        return x < 0
    return (x < 0) | (x.reciprocal() < 0)


def copysign(x: Tensor, y: Tensor | float) -> Tensor:
    """Return the magnitude of x with the sign of y."""
    sign = torch.full((), y) if not isinstance(y, Tensor) else y
    size = x.abs() if x.is_floating_point() else x.float().abs()
    return torch.where(signbit(sign), -size, size)


def is_nan(x: Tensor) -> Tensor:
    """Return whether x differs from itself; integers do not."""
    return x.ne(x)


def fmax(x: Tensor, y: Tensor) -> Tensor:
    """Return the larger of two numbers, x where they are equal; a number before a NaN."""
    return torch.where((x < y) | is_nan(x), y, x)


def fmin(x: Tensor, y: Tensor) -> Tensor:
    """Return the smaller of two numbers, x where they are equal; a number before a NaN."""
    return torch.where((y < x) | is_nan(x), y, x)


def find_scale(largest: Tensor) -> tuple[Tensor, Tensor]:
    """Return what brings numbers up to the largest into a range whose squares are numbers.

    It is a power of two, 1 for most numbers; the second tensor is its reciprocal.
    """
    is_large, is_small = largest > LARGE, largest < SMALL
    scale = torch.where(is_large, DOWN, torch.where(is_small, UP, 1.0))
    return scale, torch.where(is_large, 1 / DOWN, torch.where(is_small, 1 / UP, 1.0))


def hypot(x: Tensor, y: Tensor) -> Tensor:
    """Return sqrt(x^2 + y^2); both are scaled by a power of two where squares leave the range."""
    scale, back = find_scale(torch.maximum(x.abs(), y.abs()))
    a, b = x * scale, y * scale
    root = (a * a + b * b).sqrt() * back
    return torch.where(x.isinf() | y.isinf(), torch.inf, root)


def angle(x: Tensor) -> Tensor:
    """Return the angle of a real number: 0, or pi where it is negative; a NaN stays."""
    if not x.is_floating_point():
        return torch.where(x < 0, torch.pi, 0.0)
    return torch.where(x.isnan(), x, torch.where(x < 0, torch.pi, 0.0))


def round_decimals(x: Tensor, *, decimals: int) -> Tensor:
    """Return x rounded to a number of decimals, by a product and a quotient as torch has it."""
    if decimals == 0:
        return x.round()
    scale = 10.0 ** abs(decimals)
    return (x * scale).round() / scale if decimals > 0 else (x / scale).round() * scale


def zeros(size: Sequence[int], **options: Any) -> Tensor:
    """Return zeros, as the gradient of a sign has them."""
    return torch.zeros(size, **options)


SIGNS: Mapping[str, Callable[..., Any]] = {
    "aten.signbit.default": signbit,
    "aten.copysign.Tensor": copysign,
    "aten.copysign.Scalar": copysign,
    "aten.fmax.default": fmax,
    "aten.fmin.default": fmin,
    "aten.hypot.default": hypot,
    "aten.round.decimals": round_decimals,
    "aten._efficientzerotensor.default": zeros,
}
"""ATen overload -> decomposition."""
