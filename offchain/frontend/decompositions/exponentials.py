"""The exponential of a matrix: halved until it is small, Taylor's sum of it, and squared again.

torch chooses the degree of the sum by the norm. Here it is one degree, and of a fixed number of
squarings those are taken that a matrix needs. Where torch is alone with a single matrix, and the
norm is between `SHORT`, its sum of degree 8 has a constant that is too small, so that it is off by
up to 7e-5; so is a program.
"""

from collections.abc import Callable, Mapping
from math import factorial, prod
from typing import Any

import torch
from torch import Tensor

DEGREE = 11
"""Degree of the sum, for norms up to 1: what is left out is below 1 / 12!, 2^-28."""

SQUARINGS = 24
"""The squarings that are written out; each doubles a relative error, of which there are 24 bits."""

SHORT = (5.116619363445086e-02, 5.800524627688768e-01)
"""Norms of which torch takes the sum of degree 8."""

SHARES = {5: 0.9023481373361, 6: 0.7582841107661, 7: 2 / 3, 8: 2 / 3, 9: 0.0, 10: 0.0, 11: 0.0}
"""Degree -> what torch's sum of degree 8 has of 1 / n!, where it is of a single matrix."""


def matrix_exp(a: Tensor) -> Tensor:
    """Return the exponential of a matrix, NaN where the sums of columns exceed 2^24."""
    size = a.shape[-1]
    if size <= 1:
        return a.exp()
    norm = a.abs().sum(-2).amax(-1)[..., None, None]
    halvings = (norm > torch.exp2(torch.arange(SQUARINGS).float())).sum(-1, keepdim=True)
    small = a * torch.where(norm > 2.0**SQUARINGS, torch.nan, torch.exp2(-halvings.float()))
    one = torch.eye(size)
    is_short = (norm > SHORT[0]) & (norm < SHORT[1])
    is_single = prod(a.shape[:-2]) == 1
    result = torch.zeros_like(a)
    for k in reversed(range(DEGREE + 1)):
        share = torch.where(is_short, SHARES[k], 1.0) if is_single and k in SHARES else 1.0
        result = small @ result + one * share / factorial(k)
    for k in range(SQUARINGS):
        result = torch.where(halvings > k, result @ result, result)
    return result


EXPONENTIALS: Mapping[str, Callable[..., Any]] = {"aten.linalg_matrix_exp.default": matrix_exp}
"""ATen overload -> decomposition."""
