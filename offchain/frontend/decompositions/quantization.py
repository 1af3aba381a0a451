"""Fake quantization: numbers as they are after a round trip through small integers.

torch's kernels round a number in units of the scale, and add a zero point that is an integer then;
one that is a float is added before. Gradients of learned scales and zero points do the latter.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def _invert(scale: Tensor | float) -> Tensor | float:
    """Return the inverse of a scale, of the float32 number next to it."""
    return scale.reciprocal() if isinstance(scale, Tensor) else float(1 / np.float32(scale))


def _dequantize(
    integers: Tensor, scale: Tensor | float, zero: Tensor | float, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Return the numbers, and whether they were in range, as their gradient has it."""
    is_inside = (integers >= low) & (integers <= high)
    return (integers.clamp(low, high) - zero) * scale, is_inside


def per_tensor(
    x: Tensor, scale: Tensor | float, zero: Tensor | float, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Return a tensor quantized by one scale, and whether its elements were in range."""
    return _dequantize((x * _invert(scale)).round() + zero, scale, zero, low, high)


def per_tensor_parameters(
    x: Tensor, scale: Tensor, zero: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Return a tensor quantized by one scale that is a tensor, if that is enabled."""
    quantized, is_inside = per_tensor(x, scale, zero.to(x.dtype), low, high)
    is_on = enabled != 0
    return quantized.where(is_on, x), is_inside | ~is_on


def per_channel(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Return a tensor quantized by a scale for each slice of an axis."""
    scale, shaped = _spread(scale, x, axis), _spread(zero, x, axis)
    if not zero.is_floating_point():
        return per_tensor(x, scale, shaped.to(x.dtype), low, high)
    return _dequantize((x * _invert(scale) + shaped).round(), scale, shaped, low, high)


def learned_per_tensor(
    x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, factor: float = 1.0
) -> Tensor:
    """Return a tensor quantized by one scale that is learned, as its zero point is."""
    del factor
    return per_tensor(x, scale[0], zero[0].round().clamp(low, high), low, high)[0]


def learned_per_channel(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int, factor: float = 1.0
) -> Tensor:
    """Return a tensor quantized by learned scales, one for each slice of an axis."""
    del factor
    rounded = _spread(zero.round().clamp(low, high), x, axis)
    return per_tensor(x, _spread(scale, x, axis), rounded, low, high)[0]


def learned_per_tensor_backward(
    gradient: Tensor,
    x: Tensor,
    scale: Tensor,
    zero: Tensor,
    low: int,
    high: int,
    factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a tensor, of its scale and of its zero point.

    torch rounds halves of the zero point up here, and to even numbers in the other direction. Of
    no elements, it gives the scale and the zero point themselves.
    """
    if not x.numel():
        return x, scale, zero
    whole = (zero[0] + 0.5).clamp(low, high).trunc()
    own, scales, zeros = _differentiate(gradient, x, scale[0], whole, low, high, factor)
    return own, scales.sum().unsqueeze(0), zeros.sum().unsqueeze(0)


def learned_per_channel_backward(
    gradient: Tensor,
    x: Tensor,
    scale: Tensor,
    zero: Tensor,
    axis: int,
    low: int,
    high: int,
    factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a tensor, of its scales and of its zero points.

    Of no elements, torch gives the scales and the zero points themselves.
    """
    if not x.numel():
        return x, scale, zero
    whole = _spread(zero.round().clamp(low, high), x, axis)
    shaped = _spread(scale, x, axis)
    own, scales, zeros = _differentiate(gradient, x, shaped, whole, low, high, factor)
    others = [k for k in range(x.ndim) if k != axis]
    return own, scales.sum(others), zeros.sum(others)


def _spread(numbers: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return a number for each slice of an axis in the shape in which a tensor meets them."""
    shape = [1] * x.ndim
    shape[axis] = -1
    return numbers.reshape(shape)


def _differentiate(
    gradient: Tensor, x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of each element: its own, its scale's and its zero point's."""
    inverse = scale.reciprocal()
    integers = (x * inverse + zero).round()
    near, is_inside = _dequantize(integers, scale, zero, low, high)
    border = torch.where(integers > high, gradient * (high - zero), gradient * (low - zero))
    scales = torch.where(is_inside, gradient * (near - x) * inverse, border) * factor
    zeros = torch.where(is_inside, 0.0, -gradient * scale * factor)
    return gradient * is_inside, scales, zeros


_NAME = "aten.fake_quantize_per"
_LEARNED = "aten._fake_quantize_learnable_per"

QUANTIZATION: Mapping[str, Callable[..., Any]] = {
    f"{_NAME}_tensor_affine_cachemask.default": per_tensor,
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default": per_tensor_parameters,
    f"{_NAME}_channel_affine_cachemask.default": per_channel,
    f"{_LEARNED}_tensor_affine.default": learned_per_tensor,
    f"{_LEARNED}_tensor_affine_backward.default": learned_per_tensor_backward,
    f"{_LEARNED}_channel_affine.default": learned_per_channel,
    f"{_LEARNED}_channel_affine_backward.default": learned_per_channel_backward,
}
"""ATen overload -> decomposition."""
