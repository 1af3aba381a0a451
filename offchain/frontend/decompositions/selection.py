"""Selections: order statistics, places in a sorted line, and what a mask or an index picks."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def _pick(x: Tensor, place: Tensor, dim: int, *, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Return the elements at places of the sorted lines, and where they were."""
    values, order = x.sort(dim=dim, stable=True)
    chosen = values.gather(dim, place), order.gather(dim, place)
    first, second = chosen if keepdim else (c.squeeze(dim) for c in chosen)
    return first, second


def median_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:  # noqa: FBT001, FBT002 - ATen's signature
    """Return the lower median along an axis, the first NaN where there is one, and its place."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    last = x.shape[dim] - 1
    numbers = x.eq(x).sum(dim, keepdim=True)
    return _pick(x, torch.where(numbers <= last, numbers, last // 2), dim, keepdim=keepdim)


def nanmedian_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:  # noqa: FBT001, FBT002 - likewise
    """Return the lower median of the numbers along an axis, a NaN if there are none."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    numbers = x.eq(x).sum(dim, keepdim=True)
    return _pick(x, (numbers - 1).clamp(min=0) // 2, dim, keepdim=keepdim)


def median(x: Tensor) -> Tensor:
    """Return the lower median of all elements; NaN if there are none."""
    if not x.numel():
        return torch.full((), torch.nan, dtype=x.dtype)
    return median_dim(x.reshape(-1))[0]


def nanmedian(x: Tensor) -> Tensor:
    """Return the lower median of all numbers; NaN if there are none."""
    if not x.numel():
        return torch.full((), torch.nan, dtype=x.dtype)
    return nanmedian_dim(x.reshape(-1))[0]


def kthvalue(
    x: Tensor,
    k: int,
    dim: int = -1,
    keepdim: bool = False,  # noqa: FBT001, FBT002 - likewise
) -> tuple[Tensor, Tensor]:
    """Return the k-th smallest element along an axis, and its place."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    shape = list(x.shape)
    shape[dim] = 1
    return _pick(x, torch.full(shape, k - 1), dim, keepdim=keepdim)


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:  # noqa: FBT001, FBT002 - likewise
    """Return the most frequent element along an axis, the least of several, and its last place.

    A NaN comes once, after all numbers.
    """
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    lines, order = x.movedim(dim, -1).sort(dim=-1, stable=True)
    counts = (lines[..., :, None] == lines[..., None, :]).sum(-1).clamp(min=1)
    first = counts.argmax(-1, keepdim=True)
    place = first + counts.gather(-1, first) - 1
    values, places = lines.gather(-1, place), order.gather(-1, place)
    if keepdim:
        return values.movedim(-1, dim), places.movedim(-1, dim)
    return values[..., 0], places[..., 0]


def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Return the logarithm of the sums of exponentials up to each element."""
    if not x.ndim or not x.numel():
        return x.clone()
    lines = x.movedim(dim, -1)
    size = lines.shape[-1]
    is_before = torch.arange(size) <= torch.arange(size)[:, None]
    pairs = torch.where(is_before, lines[..., None, :], -torch.inf)
    largest = pairs.amax(-1, keepdim=True)
    shift = torch.where(largest.isinf(), 0, largest)
    return ((pairs - shift).exp().sum(-1).log() + shift[..., 0]).movedim(-1, dim)


def searchsorted(
    line: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return how many elements of sorted lines come before each value."""
    line = line if sorter is None else line.gather(-1, sorter)
    sought = values[..., :, None] if line.ndim > 1 or values.ndim else values[..., None]
    others = line[..., None, :] if line.ndim > 1 else line
    is_right = right or side == "right"
    is_behind = others > sought if is_right else others >= sought
    return (~is_behind).sum(-1).to(torch.int32 if out_int32 else torch.int64)


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return x with the source's elements, in order, where the mask is true.

    A mask that is repeated along its last axes is counted once.
    """
    mask = mask.expand_as(x)
    width, rows = 1, mask
    while rows.ndim and rows.shape[-1] > 1 and rows.stride(-1) == 0:
        width *= rows.shape[-1]
        rows = rows[..., 0]
    place = rows.reshape(-1).long().cumsum(0) - 1
    flat = place[:, None] * width + torch.arange(width)
    last = max(source.numel() - 1, 0)
    values = source.reshape(-1)[flat.clamp(0, last)].reshape(x.shape)
    return torch.where(mask, values.to(x.dtype), x)


def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return x with the source's slices folded into those that the index names."""
    shape = [1] * x.ndim
    shape[dim] = -1
    places = index.reshape(shape).expand_as(source)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


SELECTION: Mapping[str, Callable[..., Any]] = {
    "aten.median.default": median,
    "aten.median.dim": median_dim,
    "aten.nanmedian.default": nanmedian,
    "aten.nanmedian.dim": nanmedian_dim,
    "aten.kthvalue.default": kthvalue,
    "aten.mode.default": mode,
    "aten.logcumsumexp.default": logcumsumexp,
    "aten.searchsorted.Tensor": searchsorted,
    "aten.index_reduce.default": index_reduce,
}
"""ATen overload -> decomposition."""

MASKED: Mapping[str, Callable[..., Any]] = {"aten.masked_scatter.default": masked_scatter}
"""ATen overload -> composition that autograd sees."""
