"""The choice of a token by settings that are data: temperature, top_k and top_p of each text.

Temperature 0 takes the likeliest token, the first of several. Otherwise a token weighs
exp(logit / temperature - the largest of these), and is drawn by the inverse of cumulative sums, as
in `choice.pick`:

- with top_k = 0 and top_p = 1, of all tokens;
- else of the `LIKELIEST` likeliest tokens at most, found by repeated argmax, the first of equals
  first: of the first top_k of them (0 for all of these), those before which the sum of weights is
  below top_p times the sum of all of these.

So a nucleus (top_p < 1) never has more than `LIKELIEST` tokens, and its part is one of their sum.
"""

import torch
from torch import Tensor
from torch.nn import functional

from moot.offchain.frontend.generation.choice import find_best, pick

LIKELIEST = 64
"""Tokens among which top_k and top_p choose; each costs a pass over the vocabulary."""


def choose(
    logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, draws: Tensor
) -> Tensor:
    """Return INT64 tokens (texts,).

    Args:
        logits: float32 (texts, vocabulary).
        temperature: float32 (texts,), at least 0.
        top_k: INT64 (texts,), from 0 to `LIKELIEST`.
        top_p: float32 (texts,), above 0 and at most 1.
        draws: float32 (texts,), uniform numbers.
    """
    best, tokens = find_best(logits, min(LIKELIEST, logits.shape[-1]))
    place = choose_place(best, temperature, top_k, top_p, draws).unsqueeze(-1)
    of_best = tokens.gather(-1, place).squeeze(-1)
    of_all = choose_of_all(logits, temperature, draws)
    is_open = (top_k == 0) & (top_p >= 1)
    drawn = torch.where(is_open, of_all, of_best)
    return torch.where(temperature > 0, drawn, tokens[:, 0])


def choose_of_all(logits: Tensor, temperature: Tensor, draws: Tensor) -> Tensor:
    """Return INT64 (texts,): tokens drawn of all."""
    return pick(_weigh(logits, temperature), draws)


def choose_place(
    best: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, draws: Tensor
) -> Tensor:
    """Return INT64 (texts,): places drawn among the largest logits, which come largest first."""
    limit, part = top_k.unsqueeze(-1), top_p.unsqueeze(-1)
    is_first = (torch.arange(best.shape[-1]) < limit) | (limit == 0)
    weights = _weigh(best, temperature).masked_fill(~is_first, 0.0)
    sums = weights.cumsum(-1)
    before = functional.pad(sums, (1, -1))
    is_kept = before < part * sums[..., -1:]
    return pick(weights.masked_fill(~is_kept, 0.0), draws)


def _weigh(logits: Tensor, temperature: Tensor) -> Tensor:
    """Return weights; of a temperature of 0, as of 1."""
    warm = torch.where(temperature > 0, temperature, 1.0).unsqueeze(-1)
    scaled = logits / warm
    return (scaled - scaled.amax(-1, keepdim=True)).exp()
