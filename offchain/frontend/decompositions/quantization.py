"""Fake quantization: numbers as they are after a round trip through small integers."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor


def _quantize(
    x: Tensor, scale: Tensor | float, zero: Tensor | float, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Return the numbers, and whether they were in range, as their gradient has it."""
    inverse = scale.reciprocal() if isinstance(scale, Tensor) else 1 / scale
    integers = (x * inverse).round() + zero
    is_inside = (integers >= low) & (integers <= high)
    return (integers.clamp(low, high) - zero) * scale, is_inside


def per_tensor(x: Tensor, scale: float, zero: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    """Return a tensor quantized by one scale, and whether its elements were in range."""
    return _quantize(x, scale, zero, low, high)


def per_tensor_parameters(
    x: Tensor, scale: Tensor, zero: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Return a tensor quantized by one scale that is a tensor, if that is enabled."""
    quantized, is_inside = _quantize(x, scale, zero.to(x.dtype), low, high)
    is_on = enabled != 0
    return quantized.where(is_on, x), is_inside | ~is_on


def per_channel(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Return a tensor quantized by a scale for each slice of an axis."""
    shape = [1] * x.ndim
    shape[axis] = -1
    return _quantize(x, scale.reshape(shape), zero.reshape(shape).to(x.dtype), low, high)


_NAME = "aten.fake_quantize_per"

QUANTIZATION: Mapping[str, Callable[..., Any]] = {
    f"{_NAME}_tensor_affine_cachemask.default": per_tensor,
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default": per_tensor_parameters,
    f"{_NAME}_channel_affine_cachemask.default": per_channel,
}
"""ATen overload -> decomposition."""
