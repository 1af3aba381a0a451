"""Margin losses, in place of torch's decompositions, which differ from its kernels."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

NONE, MEAN = 0, 1
"""torch's numbers of reductions; the third is the sum."""


def multi_margin(
    x: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = MEAN,
) -> Tensor:
    """Return the loss of one label in each row: every other class costs what its margin lacks.

    Where a margin is kept exactly there is no gradient.
    """
    rows, label = x.reshape(-1, x.shape[-1] if x.ndim else 1), target.reshape(-1, 1)
    lacks = margin - rows.gather(1, label) + rows
    is_costly = (lacks > 0) & (torch.arange(rows.shape[1]) != label)
    costs = torch.where(is_costly, lacks if p == 1 else lacks * lacks, 0)
    if weight is not None:
        costs = costs * weight[label]
    losses = costs.sum(1) / rows.shape[1]
    if reduction == NONE:
        return losses.reshape(target.shape)
    return losses.mean() if reduction == MEAN else losses.sum()


def multilabel_margin(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """Return the loss, and which classes are labels of their rows (as 0 and 1).

    A row's labels end at the first negative one. Each label and each class that is none of the
    labels make a pair, which costs 1 - x[label] + x[class] where that is positive.
    """
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1)
    labels = target.reshape(rows.shape)
    is_label = (labels < 0).long().cumsum(1) == 0
    classes = torch.arange(rows.shape[1])[None, None]
    is_class = (classes == labels[..., None]) & is_label[..., None]
    is_pair = is_label[..., None] & ~is_class.any(1, keepdim=True)
    chosen = torch.where(is_class, rows[:, None], 0).sum(2, keepdim=True)
    costs = torch.where(is_pair, (1 - chosen + rows[:, None]).relu(), 0)
    losses = costs.sum((1, 2)) / rows.shape[1]
    is_target = is_class.any(1).to(x.dtype).reshape(target.shape)
    if reduction == NONE:
        return losses.reshape(x.shape[:-1]), is_target
    return losses.mean() if reduction == MEAN else losses.sum(), is_target


MARGINS: Mapping[str, Callable[..., Any]] = {
    "aten.multi_margin_loss.default": multi_margin,
    "aten.multilabel_margin_loss_forward.default": multilabel_margin,
}
"""ATen overload -> decomposition that autograd sees."""
