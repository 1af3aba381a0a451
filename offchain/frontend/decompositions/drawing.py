"""Random operators as functions of uniform and normal numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

PROPOSALS = 12
"""Proposals that a gamma draw chooses from: one is rejected at most once in 20 times."""

TINY = 2.0**-126
"""The least normal number."""


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


def normal_of_size(mean: float, std: float, size: Sequence[int], **_: Any) -> Tensor:
    """Return normal numbers of one mean and standard deviation."""
    return torch.randn(size) * std + mean


def standard_gamma(alpha: Tensor, **_: Any) -> Tensor:
    """Return draws of gamma distributions (Marsaglia and Tsang, ACM TOMS 26, 2000).

    A shape below 1 is drawn as one that is larger by 1, and multiplied by a power of a uniform
    number, as torch does.
    """
    is_small = alpha < 1
    boost = torch.rand(alpha.shape).clamp(min=TINY).pow(1 / torch.where(is_small, alpha, 1))
    large = torch.where(is_small, alpha + 1, alpha) - 1 / 3
    normal, uniform = (draw((PROPOSALS, *alpha.shape)) for draw in (torch.randn, torch.rand))
    root = normal / (9 * large).sqrt() + 1
    cube = (root * root * root).clamp(min=TINY)
    limit = normal * normal * 0.5 + large * (1 - cube + cube.log())
    is_accepted = (root > 0) & (uniform.clamp(min=TINY).log() < limit)
    first = is_accepted.float().argmax(0, keepdim=True)
    chosen = large * cube.gather(0, first)[0]
    return (chosen * torch.where(is_small, boost, 1)).clamp(min=TINY)


def sample_dirichlet(alpha: Tensor, **_: Any) -> Tensor:
    """Return draws of Dirichlet distributions, which gamma draws over their sums are."""
    drawn = standard_gamma(alpha)
    return (drawn / drawn.sum(-1, keepdim=True)).clamp(TINY, 1 - 2**-24)


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
    "aten._sample_dirichlet.default": sample_dirichlet,
    "aten._standard_gamma.default": standard_gamma,
    "aten.normal.Tensor_float": normal,
    "aten.normal.float_Tensor": normal,
    "aten.normal.Tensor_Tensor": normal,
    "aten.normal.float_float": normal_of_size,
    "aten.rrelu_with_noise_functional.default": rrelu,
}
"""ATen overload -> decomposition."""
