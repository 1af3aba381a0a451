"""Covariances, and limits on norms."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

NORM_EPSILON = 1e-7


def cov(
    x: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Return the covariances of rows of observations, which may have weights."""
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    weights = torch.ones(rows.shape[1])
    for given in (fweights, aweights):
        weights = weights if given is None else weights * given
    total = weights.sum()
    centered = rows - (rows * weights).sum(1, keepdim=True) / total
    reduced = (
        correction * (weights * aweights).sum() / total if aweights is not None else correction
    )
    divisor = (total - reduced).clamp(min=0)
    result = (centered * weights) @ centered.T / divisor
    return result.reshape(()) if x.ndim < 2 else result


def limit_norm(norms: Tensor, most: float) -> Tensor:
    """Return the factors that bring norms down to a limit, as torch has them; 1 for those below."""
    return torch.where(norms > most, most / (norms + NORM_EPSILON), 1)


def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return x whose slices along an axis have a norm of at most `maxnorm`."""
    axes = [d for d in range(x.ndim) if d != dim % x.ndim]
    norms = torch.linalg.vector_norm(x, p, axes, keepdim=True)
    return x * limit_norm(norms, maxnorm)


STATISTICS: Mapping[str, Callable[..., Any]] = {
    "aten.cov.default": cov,
    "aten.renorm.default": renorm,
}
"""ATen overload -> composition that autograd sees."""
