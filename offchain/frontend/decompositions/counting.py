"""Decompositions of counts and of questions about all elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002 - torch's names
    """Count the elements in each of `bins` equal parts of [min, max], or of their own range."""
    x = x.reshape(-1)
    low, high = torch.full((), float(min)), torch.full((), float(max))
    if min == max and x.numel():
        low, high = x.amin(), x.amax()
    is_point = low == high
    low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    place = ((x - low) / (high - low) * bins).floor().clamp(max=bins - 1)
    place = torch.where((x >= low) & (x <= high), place, -1)
    return (place == torch.arange(bins)[:, None]).sum(1).to(x.dtype)


def histogram(
    x: Tensor,
    bins: int,
    *,
    range: Sequence[float] | None = None,  # noqa: A002 - torch's names
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """Count the elements between edges at equal distances, as `histogram_between`; see `histc`."""
    low, high = (torch.full((), end) for end in range) if range else (x.amin(), x.amax())
    is_point = low == high
    low, high = torch.where(is_point, low - 0.5, low), torch.where(is_point, high + 0.5, high)
    shares = torch.arange(bins + 1) / bins
    edges = torch.where(
        shares < 0.5, low + (high - low) * shares, high - (high - low) * (1 - shares)
    )
    return histogram_between(x, edges, weight=weight, density=density)


def histogram_between(
    x: Tensor, edges: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """Add up the weights of elements between edges, each with its lower one; the last with both."""
    x = x.reshape(-1, 1)
    is_within = (x >= edges[:-1]) & (
        (x < edges[1:]) | ((x == edges[-1]) & (edges[1:] == edges[-1]))
    )
    weights = torch.ones(()) if weight is None else weight.reshape(-1, 1)
    counts = torch.where(is_within, weights, 0.0).sum(0)
    if density:
        counts = counts / counts.sum() / (edges[1:] - edges[:-1])
    return counts, edges.clone()


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    """Count how often each number below `minlength` occurs, or add up the weights of its places.

    Larger numbers, of which torch would have a longer result, are not counted.
    """
    if not minlength:
        return NotImplemented
    counts = torch.zeros(minlength, dtype=torch.int64 if weights is None else weights.dtype)
    added = torch.ones_like(x, dtype=torch.int64) if weights is None else weights
    return counts.scatter_add(0, x.long(), added)


COUNTS: Mapping[str, Callable[..., Any]] = {"aten.bincount.default": bincount}
"""ATen overload -> decomposition of an operator whose shape torch takes for one of the data."""

COUNTING: Mapping[str, Callable[..., Any]] = {
    "aten.histc.default": histc,
    "aten.histogram.bin_ct": histogram,
    "aten.histogram.bins_tensor": histogram_between,
    "aten._is_all_true.default": torch.all,
    "aten._is_any_true.default": torch.any,
}
"""ATen overload -> decomposition."""
