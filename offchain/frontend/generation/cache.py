"""The interface of modules that can decode a token a step, and check all tokens in one pass.

Such a module is called with INT64 tokens (samples, T) and a cache, and returns float32 logits
(samples, T, vocabulary). In each of its attention layers it hands keys and values of the T tokens,
(samples, heads, T, width), to `cache.extend`, and attends to those that come back, of all L
positions that a text may have, under `cache.mask`. Everything else that it computes for a token may
depend on that token and `cache.positions` alone.

Decoding calls it with T = 1, a prefill with T = L. **Both compute the same bits**:

- No operator's arithmetic depends on T. A fold's order is a function of the shape of what it folds,
  here a layer's width, a head's width or L, and of nothing else.
- Attention folds over all L positions in both, in the same order. What comes after a token has
  score -inf or one so low that its exponential is +0. Its key and its value differ: a prefill has
  those of later tokens, decoding has zeros. But max ignores the score, adding +0 to a sum of
  exponentials changes nothing, and fma(+0, value, sum) is the sum.
- So each token's row is a function of the tokens up to it, by the same operations in both.

The last fma has two exceptions. A later value that is not finite spoils the sum, 0 * inf is NaN:
the prefill of a model that diverges differs. And a sum of -0 may become +0, or not, as the signs of
the later values have it; -0 can only come from a sum that underflows, and `attend` makes it +0.
"""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

Layers = Mapping[int, tuple[Tensor, Tensor]]
"""Keys and values (samples, heads, L, width) of each layer."""


class Cache(Protocol):
    """Keys and values of the tokens so far.

    Attributes:
        positions: INT64 (T,), the positions of the tokens that the module is called with.
        mask: BOOL (T, L), whether a token may look at a position.
    """

    positions: Tensor
    mask: Tensor

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values at all positions, given those of the T tokens."""


class StepCache:
    """The cache of a step that decodes one token: keys and values up to this token.

    Attributes:
        layers: the keys and values after the step.
    """

    def __init__(self, layers: Layers, position: Tensor, length: int) -> None:
        places = torch.arange(length)
        self.positions = position.reshape(1)
        self.mask = (places <= position).reshape(1, length)
        self.layers = dict(layers)
        self._is_here = (places == position).reshape(length, 1)

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the layer's keys and values with those of the token in their place."""
        before = self.layers[layer]
        keys, values = (
            torch.where(self._is_here, new, old)
            for new, old in zip((keys, values), before, strict=True)
        )
        self.layers[layer] = (keys, values)
        return keys, values


class PrefillCache:
    """The cache of a pass over all positions at once: it keeps nothing.

    Attributes:
        layers: the keys and values of the pass.
    """

    def __init__(self, length: int) -> None:
        self.positions = torch.arange(length)
        self.mask = self.positions <= self.positions.reshape(length, 1)
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values as they are."""
        self.layers[layer] = (keys, values)
        return keys, values


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Return the attention of queries to what the mask lets them see, exact whatever it hides.

    Args:
        queries: float32 (samples, heads, T, width).
        keys: float32 (samples, heads, L, width).
        values: float32 (samples, heads, L, width).
        mask: BOOL (T, L).
    """
    scores = queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    seen: Tensor = weights @ values
    return seen + 0.0
