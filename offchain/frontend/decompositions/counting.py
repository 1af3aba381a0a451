"""Decompositions of counts and of questions about all elements."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002 - torch's names
    """Count the elements in each of `bins` equal parts of [min, max], or of their own range."""
    x = x.reshape(-1)
    low, high = torch.full((), float(min)), torch.full((), float(max))
    if min == max and x.numel():
        low, high = x.amin(), x.amax()
    is_point = low == high
    low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    place = ((x - low) / (high - low) * bins).floor().clamp(max=bins - 1)
    place = torch.where((x >= low) & (x <= high), place, -1)
    return (place == torch.arange(bins)[:, None]).sum(1).to(x.dtype)


COUNTING: Mapping[str, Callable[..., Any]] = {
    "aten.histc.default": histc,
    "aten._is_all_true.default": torch.all,
    "aten._is_any_true.default": torch.any,
}
"""ATen overload -> decomposition."""
