"""Random operators as functions of uniform and normal numbers."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def randperm(count: int, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """Return a random permutation: the order of uniform numbers."""
    return torch.rand(count).argsort().to(dtype or torch.int64)


def normal(mean: Tensor | float, std: Tensor | float, **_: Any) -> Tensor:
    """Return normal numbers of these means and standard deviations."""
    given = mean if isinstance(mean, Tensor) else std
    assert isinstance(given, Tensor)
    other = std if given is mean else mean
    sample = torch.randn_like(given + other)
    return sample * std + mean


def rrelu(
    x: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,  # noqa: FBT001, FBT002 - ATen's signature
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Return x, negative elements times random slopes (in training) or the middle one."""
    if not training:
        return torch.where(x > 0, x, x * ((lower + upper) / 2)), noise
    slopes = torch.where(x > 0, 1, torch.rand_like(x) * (upper - lower) + lower)
    return x * slopes, slopes


DRAWING: Mapping[str, Callable[..., Any]] = {
    "aten.randperm.default": randperm,
    "aten.normal.Tensor_float": normal,
    "aten.normal.float_Tensor": normal,
    "aten.normal.Tensor_Tensor": normal,
    "aten.rrelu_with_noise_functional.default": rrelu,
}
"""ATen overload -> decomposition."""
