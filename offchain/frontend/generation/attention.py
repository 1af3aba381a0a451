"""Attention in order: sums are left folds over positions, whatever the length that they are given.

A fold of positions that are hidden adds exact zeros, so that a text has the same bits in a state
of L positions, in one of 2 L, and where the keys before a chunk of tokens and those of the chunk
are folded one after the other. `cache` has the argument, and its exceptions. In torch's softmax the
order depends on L: its sum goes through lanes.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Asked:
    """What a layer asks with: T tokens of each text.

    Attributes:
        queries: float32 (texts, heads, T, width).
        keys: float32 (texts, key heads, T, width); of which heads there may be fewer.
        values: float32 (texts, key heads, T, width).
        scale: what scores are multiplied by.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    scale: float

    def group(self) -> Tensor:
        """Return the queries (texts, key heads, heads of each * T, width)."""
        texts, _, _, width = self.queries.shape
        return self.queries.reshape(texts, self.keys.shape[1], -1, width)

    def ungroup(self, seen: Tensor) -> Tensor:
        """Return what a group has seen as layers have it, (texts, T, heads, width)."""
        return seen.reshape(self.queries.shape).transpose(1, 2)

    def spread(self, mask: Tensor) -> Tensor:
        """Return a mask (texts or 1, T, N) for groups, (texts or 1, 1, heads of each * T, N)."""
        each = self.queries.shape[1] // self.keys.shape[1]
        texts, count, places = mask.shape
        wide = mask.unsqueeze(1).expand(texts, each, count, places)
        return wide.reshape(texts, 1, each * count, places)


class Attending(Protocol):
    """Keys and values of the tokens so far, which layers attend to.

    Attributes:
        positions: INT64 (texts, T), where the tokens are that the model is called with.
    """

    positions: Tensor

    def attend(self, layer: int, asked: Asked) -> Tensor:
        """Return what each token sees, float32 (texts, T, heads, width)."""


class RowCache:
    """The cache of a step that decodes one token of each text: keys and values up to this token.

    Attributes:
        layers: keys and values (texts, key heads, L, width) after the step.
    """

    def __init__(self, layers: dict[int, tuple[Tensor, Tensor]], position: Tensor) -> None:
        self.layers = dict(layers)
        length = next(iter(layers.values()))[0].shape[2]
        places = torch.arange(length)
        self.positions = position.reshape(1, 1)
        self._mask = (places <= position).reshape(1, 1, length)
        self._is_here = (places == position).reshape(length, 1)

    def attend(self, layer: int, asked: Asked) -> Tensor:
        """See `Attending`."""
        before = self.layers[layer]
        keys = torch.where(self._is_here, asked.keys, before[0])
        values = torch.where(self._is_here, asked.values, before[1])
        self.layers[layer] = keys, values
        scores = _score(asked, keys, self._mask)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        total = weights @ _ones(weights)
        return asked.ungroup(weights @ values / total + 0.0)


class ChunkCache:
    """The cache of a pass over T tokens of each text, whose texts begin at positions of their own.

    What comes before is read where it is, and not copied: sums go over it, and then over the chunk.

    Args:
        before: keys and values (texts, key heads, L, width) before the chunk, by layers.
        starts: INT64 (texts,), how many positions of these count.
        count: T.

    Attributes:
        layers: keys and values (texts, key heads, T, width) of the chunk.
    """

    def __init__(
        self, before: dict[int, tuple[Tensor, Tensor]], starts: Tensor, count: int
    ) -> None:
        steps = torch.arange(count)
        self.positions = starts.unsqueeze(1) + steps
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._before = before
        self._inside = (steps <= steps.unsqueeze(1)).unsqueeze(0)
        self._mask = None
        if before:
            length = next(iter(before.values()))[0].shape[2]
            seen = torch.arange(length) < starts.unsqueeze(1)
            self._mask = seen.unsqueeze(1).expand(len(starts), count, length)

    def attend(self, layer: int, asked: Asked) -> Tensor:
        """See `Attending`."""
        self.layers[layer] = asked.keys, asked.values
        scores = _score(asked, asked.keys, self._inside)
        best = scores.amax(-1, keepdim=True)
        if self._mask is None:
            weights = (scores - best).exp()
            total = weights @ _ones(weights)
            return asked.ungroup(weights @ asked.values / total + 0.0)
        keys, values = self._before[layer]
        earlier = _score(asked, keys, self._mask)
        best = torch.maximum(earlier.amax(-1, keepdim=True), best)
        past, weights = (earlier - best).exp(), (scores - best).exp()
        total = _extend(past @ _ones(past), weights, _ones(weights))
        seen = _extend(past @ values, weights, asked.values)
        return asked.ungroup(seen / total + 0.0)


def _score(asked: Asked, keys: Tensor, mask: Tensor) -> Tensor:
    scores = asked.group() @ keys.transpose(-1, -2) * asked.scale
    return scores.masked_fill(~asked.spread(mask), -torch.inf)


def _ones(weights: Tensor) -> Tensor:
    """Return a column for the sum of each row, as a fold without lanes."""
    return torch.ones(*weights.shape[:-2], weights.shape[-1], 1)


def _extend(start: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    """Return the folds that go on from a start, over the chunk."""
    flat = (x.flatten(0, 1) for x in (start, weights, values))
    return torch.baddbmm(*flat).reshape(start.shape)
