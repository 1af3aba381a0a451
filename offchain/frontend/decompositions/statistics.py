"""Variances, covariances, and limits on norms."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from moot.offchain.frontend.decompositions.signs import find_scale

NORM_EPSILON = 1e-7


def _center_scaled(
    x: Tensor, dim: Sequence[int] | None, correction: float | None, *, keepdim: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return variances and means of numbers that are scaled, and the reciprocal of the scale.

    torch sums in float64, in which no square of a float32 number leaves the range.
    """
    axes = list(dim) if dim else list(range(x.ndim))
    if not x.numel() or not x.ndim:
        variance, mean = torch.var_mean(x, axes, correction=correction, keepdim=keepdim)
        return variance, mean, torch.ones(())
    scale, back = find_scale(x.abs().amax(axes, keepdim=True))
    variance, mean = torch.var_mean(x * scale, axes, correction=correction, keepdim=keepdim)
    return variance, mean, back.reshape(variance.shape)


def var(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Return the variances along some axes."""
    variance, _, back = _center_scaled(x, dim, correction, keepdim=keepdim)
    return variance * back * back


def std(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Return the standard deviations along some axes."""
    variance, _, back = _center_scaled(x, dim, correction, keepdim=keepdim)
    return variance.sqrt() * back


def std_mean(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the standard deviations and the means along some axes."""
    variance, mean, back = _center_scaled(x, dim, correction, keepdim=keepdim)
    return variance.sqrt() * back, mean * back


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
    """Return x whose slices along an axis have a norm of at most `maxnorm`.

    A slice that stays gets its gradient as it is, also where its norm is not a number.
    """
    axes = [d for d in range(x.ndim) if d != dim % x.ndim]
    norms = torch.linalg.vector_norm(x.detach(), p, axes, keepdim=True)
    is_long = norms > maxnorm
    long = torch.where(is_long, x, 0)
    factors = limit_norm(torch.linalg.vector_norm(long, p, axes, keepdim=True), maxnorm)
    return torch.where(is_long, long * factors, x)


SPREADS: Mapping[str, Callable[..., Any]] = {
    "aten.var.correction": var,
    "aten.std.correction": std,
    "aten.std_mean.correction": std_mean,
}
"""ATen overload -> decomposition."""

STATISTICS: Mapping[str, Callable[..., Any]] = {
    "aten.cov.default": cov,
    "aten.renorm.default": renorm,
}
"""ATen overload -> composition that autograd sees."""
