"""Decomposition of the product in groups that experts of a mixture take."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def grouped_mm(
    a: Tensor,
    b: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiply groups of rows by matrices of their own, as experts of a mixture do.

    Group g ends before position offs[g] of the dimension that has no group's number: the rows of a,
    the columns of b, or the contracted dimension of both. How many rows a group has depends on
    data, and a program has fixed shapes, so every row is multiplied by all matrices and takes the
    result of its own. Rows behind the last group, which torch leaves undefined, are those of the
    last matrix.

    Args:
        a: (rows, inner), or (groups, rows, inner).
        b: (groups, inner, columns), or (inner, columns).
        offs: INT32 (groups,), where groups end; None where both have the dimension of groups.
        bias: not in use, as in torch.
        out_dtype: the type of the result.
    """
    assert bias is None, "torch refuses it too"
    if offs is None:
        result = a @ b
    elif a.dim() == 2 and b.dim() == 2:
        is_member = _number(offs, a.shape[1]) == torch.arange(len(offs), device=a.device)[:, None]
        result = torch.where(is_member[:, None], a, 0) @ torch.where(is_member[..., None], b, 0)
    elif a.dim() == 2:
        result = _choose(a @ b, _number(offs, len(a)))
    else:
        result = _choose((a @ b).mT, _number(offs, b.shape[1])).T
    return result.to(out_dtype or a.dtype)


def _number(offs: Tensor, size: int) -> Tensor:
    """Return the group of each position, INT64 (size,)."""
    ends = offs[:, None] <= torch.arange(size, device=offs.device)
    return ends.sum(0).clamp(max=len(offs) - 1)


def _choose(products: Tensor, groups: Tensor) -> Tensor:
    """Return from (groups, rows, columns) each row's product with the matrix of its group."""
    return products[groups, torch.arange(len(groups), device=groups.device)]


EXPERTS: Mapping[str, Callable[..., Any]] = {"aten._grouped_mm.default": grouped_mm}
"""ATen overload -> decomposition."""
