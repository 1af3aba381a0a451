"""Zeros that derivatives forward begin with: torch keeps them without memory."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def zeros_with_batch(x: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    """Return zeros of another tensor's shape, behind the first dimensions of x."""
    return x.new_zeros((*x.shape[:self_num_batch_dims], *other.shape))


ZEROS: Mapping[str, Callable[..., Any]] = {
    "aten._efficientzerotensor.default": torch.zeros,
    "aten._new_zeros_with_same_feature_meta.default": zeros_with_batch,
}
"""ATen overload -> decomposition."""
