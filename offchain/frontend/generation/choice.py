"""The choice of a token by its logits: the likeliest one, or one drawn by a uniform number."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from moot.offchain.errors import UsageError
from moot.offchain.frontend.schedules import require_count

BLOCK = 256
"""Choices above which a draw first finds a block of them: cumulative sums cost their square."""

LARGEST_DRAW = 1 - 2.0**-24


@dataclass(frozen=True, slots=True)
class Greedy:
    """Takes the likeliest token, the first of several."""

    @property
    def is_random(self) -> bool:
        """No draw is needed."""
        return False

    def __call__(self, logits: Tensor, draws: Tensor | None) -> Tensor:
        """Return INT64 tokens (...) for float32 logits (..., vocabulary)."""
        del draws
        return logits.argmax(-1)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Draws a token with a probability that goes as exp(logit / temperature).

    Attributes:
        temperature: above 0; lower ones prefer likelier tokens.
        top_k: only the likeliest tokens are drawn, this many; 0 for all. Each costs a pass over
            the vocabulary.
    """

    temperature: float = 1.0
    top_k: int = 50

    def __post_init__(self) -> None:
        if not 0 < self.temperature < torch.inf:
            raise UsageError(
                f"the temperature is {self.temperature}; choose one above 0, or Greedy()"
            )
        require_count("the number of likeliest tokens (0 for all)", self.top_k)

    @property
    def is_random(self) -> bool:
        """Every token needs a draw."""
        return True

    def __call__(self, logits: Tensor, draws: Tensor | None) -> Tensor:
        """Return INT64 tokens (...) for float32 logits (..., vocabulary), by draws (...)."""
        assert draws is not None
        if not 0 < self.top_k < logits.shape[-1]:
            return pick(self._weigh(logits), draws)
        best, tokens = find_best(logits, self.top_k)
        place = pick(self._weigh(best), draws)
        return tokens.gather(-1, place.unsqueeze(-1)).squeeze(-1)

    def _weigh(self, logits: Tensor) -> Tensor:
        scaled = logits / self.temperature
        return (scaled - scaled.amax(-1, keepdim=True)).exp()


def find_best(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest logits and their tokens (..., count), largest first, by repeated argmax.

    Of equal logits the first comes first.
    """
    places = torch.arange(logits.shape[-1])
    best, tokens = [], []
    for _ in range(count):
        token = logits.argmax(-1, keepdim=True)
        best.append(logits.gather(-1, token))
        tokens.append(token)
        logits = logits.masked_fill(places == token, -torch.inf)
    return torch.cat(best, -1), torch.cat(tokens, -1)


def pick(weights: Tensor, draws: Tensor) -> Tensor:
    """Return the first index at which the cumulative sum of weights is above draw * total.

    Where there are many, first of the sums of blocks of `BLOCK` weights, then inside that block.
    A draw is at most 1 - 2^-24, so that draw * total is below the total, rounded or not.

    Args:
        weights: float32 (..., N), at least 0 and not all of them 0.
        draws: float32 (...), uniform numbers.

    Returns:
        INT64 (...).
    """
    count = weights.shape[-1]
    if count <= BLOCK:
        sums = weights.cumsum(-1)
        return _find_first(sums > sums[..., -1:] * draws.unsqueeze(-1)).squeeze(-1)
    blocks = functional.pad(weights, (0, -count % BLOCK)).reshape(*draws.shape, -1, BLOCK)
    sums = blocks.sum(-1).cumsum(-1)
    target = sums[..., -1:] * draws.unsqueeze(-1)
    block = _find_first(sums > target)
    before = functional.pad(sums, (1, -1)).gather(-1, block)
    row = block.unsqueeze(-1).expand(*block.shape, BLOCK)
    inside = blocks.gather(-2, row).squeeze(-2).cumsum(-1)
    rest = torch.minimum(target - before, inside[..., -1:] * LARGEST_DRAW)
    return (block * BLOCK + _find_first(inside > rest)).squeeze(-1)


def _find_first(is_found: Tensor) -> Tensor:
    """Return the index (..., 1) of the first true element, as argmax keeps the first of equals."""
    return is_found.int().argmax(-1, keepdim=True)
