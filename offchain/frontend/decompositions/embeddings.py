"""Bags of embeddings, and the limit on an embedding's norm."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from moot.offchain.frontend.decompositions.statistics import limit_norm

SUM, MEAN, MAX = 0, 1, 2
"""torch's numbers of what a bag makes of its rows."""


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,  # noqa: FBT001, FBT002 - ATen's signature
    mode: int = SUM,
    sparse: bool = False,  # noqa: FBT001, FBT002 - likewise
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,  # noqa: FBT001, FBT002 - likewise
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the sum, mean or maximum of each bag's rows; a bag without any is 0.

    Bag b holds the positions from offsets[b] to the next offset, but those of the padding index.
    Also returned are each position's bag, each bag's size, and the position of each maximum.
    """
    del sparse
    starts = offsets[:-1] if include_last_offset else offsets
    bags = starts.shape[0]
    places = torch.arange(indices.shape[0])
    bag = (starts[:, None] <= places).sum(0) - 1
    padding = padding_idx if padding_idx >= 0 else None
    rows = functional.embedding(indices, weight, padding)
    if scale_grad_by_freq and mode != MAX:
        scale = _find_divisors(indices, weight.shape[0]).to(rows.dtype).reciprocal()
        rows = rows.detach() + (rows - rows.detach()) * scale[:, None]
    counts = indices != padding_idx
    is_member = (bag == torch.arange(bags)[:, None]) & counts
    sizes = is_member.sum(1)
    if mode == MAX:
        lines = torch.where(is_member[..., None], rows, -torch.inf)
        best = lines.argmax(1)
        chosen = lines.gather(1, best[:, None])[:, 0]
        return torch.where(sizes[:, None] > 0, chosen, 0), bag, sizes, best
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    rows = torch.where(counts[:, None], rows, 0)
    total = torch.zeros(bags, weight.shape[1]).index_add(0, bag, rows)
    if mode == MEAN:
        total = total / sizes.clamp(min=1).to(total.dtype)[:, None]
    return total, bag, sizes, sizes


def _find_divisors(indices: Tensor, size: int) -> Tensor:
    """Return what torch divides the gradient of each position's row by, INT64.

    It is the count of an index, though not of that position's: for the u-th smallest of all
    different indices, torch takes the count of what stands at place u of the sorted indices.
    """
    counts = torch.zeros(size, dtype=torch.int64).index_add(0, indices, torch.ones_like(indices))
    rank = (counts > 0).long().cumsum(0) - 1
    return counts[indices.sort().values[rank[indices]]]


def embedding_backward(
    gradient: Tensor,
    indices: Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,  # noqa: FBT001 - ATen's signature
    sparse: bool,  # noqa: FBT001 - likewise
) -> Tensor:
    """Return the gradient of an embedding as a dense tensor, also where torch's is sparse."""
    del sparse
    return torch.ops.aten.embedding_dense_backward.default(  # type: ignore[no-any-return]  # an operator's result
        gradient, indices, num_weights, padding_idx, scale_grad_by_freq
    )


def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Return the weight whose rows that are looked up have a norm of at most `max_norm`."""
    norms = torch.linalg.vector_norm(weight, norm_type, 1)
    is_used = torch.zeros(weight.shape[0], dtype=torch.bool)
    is_used = is_used.index_put((indices.reshape(-1),), torch.ones((), dtype=torch.bool))
    scale = torch.where(is_used, limit_norm(norms, max_norm), 1)
    return weight * scale[:, None]


BAGS: Mapping[str, Callable[..., Any]] = {
    "aten._embedding_bag.default": embedding_bag,
    "aten.embedding_backward.default": embedding_backward,
}
"""ATen overload -> composition that autograd sees."""

EMBEDDINGS: Mapping[str, Callable[..., Any]] = {"aten.embedding_renorm.default": embedding_renorm}
"""ATen overload -> decomposition."""
