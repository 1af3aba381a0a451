"""Connectionist temporal classification: the loss of a sequence whose labels have no places."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

NEVER = -1e30
"""The logarithm of a chance of 0: a number, so that differences of two of them are 0."""

IMPOSSIBLE = 1e29
"""A loss above this belongs to no alignment at all."""


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    zero_infinity: bool = False,  # noqa: FBT001, FBT002 - ATen's signature
) -> tuple[Tensor, Tensor]:
    """Return each sequence's negative log-likelihood (N,), and the last forward variables.

    The forward variables of Graves et al. (2006), of blanks and labels in turn, are written out
    step by step. As in torch, the gradient is that of normalized `log_probs`.

    Args:
        log_probs: (T, N, C).
        targets: (N, S), or all labels one after the other.
        input_lengths: (N,), steps of each sequence; without axes where there is one.
        target_lengths: (N,), labels of each sequence.
        blank: the class of no label.
        zero_infinity: whether torch then makes a loss of 0 where there is no alignment.
    """
    del zero_infinity
    steps, labels = _count(input_lengths), _count(target_lengths)
    classes = _spread(targets, labels, blank)
    chances = log_probs.gather(2, classes.expand(log_probs.shape[0], -1, -1))
    is_new = torch.cat([torch.zeros_like(classes[:, :2]), classes[:, 2:] - classes[:, :-2]], 1) != 0
    place = torch.arange(classes.shape[1])
    alpha = torch.where(place < 2, chances[0], NEVER)
    for t in range(1, log_probs.shape[0]):
        before = torch.nn.functional.pad(alpha, (2, 0), value=NEVER)
        skipped = torch.where(is_new, before[:, :-2], NEVER)
        paths = torch.stack([alpha, before[:, 1:-1], skipped])
        moved = (paths.logsumexp(0) + chances[t]).clamp(min=NEVER)
        alpha = torch.where(t < steps[:, None], moved, alpha)
    is_end = (place == 2 * labels[:, None]) | (place == 2 * labels[:, None] - 1)
    loss = -torch.where(is_end, alpha, NEVER).logsumexp(1)
    is_step = (torch.arange(log_probs.shape[0])[:, None] < steps)[..., None]
    total = torch.where(is_step, log_probs.exp(), 0).sum((0, 2))
    loss = loss + (total - total.detach())
    return torch.where(loss > IMPOSSIBLE, torch.inf, loss), alpha


def ctc_loss_of_known_lengths(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    *options: Any,
) -> Any:
    """Return the folded loss where lengths are numbers, which torch would write to a tensor."""
    lengths = _count(input_lengths), _count(target_lengths)
    return torch.ops.aten.ctc_loss.Tensor(log_probs, targets, *lengths, *options)


def _count(lengths: Tensor | Sequence[int]) -> Tensor:
    return lengths.reshape(-1) if isinstance(lengths, Tensor) else torch.tensor(list(lengths))


def _spread(targets: Tensor, labels: Tensor, blank: int) -> Tensor:
    """Return (N, 2 S + 1): each sequence's labels, a blank before each and behind the last."""
    if targets.ndim == 1:
        ends = labels.cumsum(0)
        place = (ends - labels)[:, None] + torch.arange(targets.shape[0])
        targets = targets[place.clamp(max=max(targets.shape[0] - 1, 0))]
    pairs = torch.stack([torch.full_like(targets, blank), targets], 2).flatten(1)
    return torch.cat([pairs, torch.full_like(pairs[:, :1], blank)], 1)


ALIGNMENTS: Mapping[str, Callable[..., Any]] = {
    "aten.ctc_loss.IntList": ctc_loss_of_known_lengths,
    "aten._ctc_loss.default": ctc_loss,
    "aten._ctc_loss.Tensor": ctc_loss,
}
"""ATen overload -> composition that autograd sees."""
