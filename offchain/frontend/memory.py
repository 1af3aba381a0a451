"""Memory of tensors: which one a tensor has, how much of it, and which operators write to it."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch._ops import OpOverload


def get_memory(tensor: torch.Tensor) -> int:
    """Return what tells the memory of a tensor, and of its views, from that of others."""
    memory: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - the identity of the storage
    return memory


def get_span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first place in its memory that a tensor has, and the last, in elements."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    first = int(tensor.storage_offset())
    return first, first + sum((size - 1) * stride for size, stride in pairs)


def is_within(inner: torch.Tensor, outer: torch.Tensor) -> bool:
    """Return whether a tensor spans no more of one memory than another of its type."""
    (start, end), (first, last) = get_span(inner), get_span(outer)
    return inner.dtype == outer.dtype and first <= start and end <= last


def list_written(
    operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[Any]:
    """Yield the arguments to which an operator writes: tensors, lists of some, or nodes."""
    for place, argument in enumerate(operator._schema.arguments):  # noqa: SLF001 - not public
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            if value is not None:
                yield value
