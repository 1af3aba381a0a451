"""Decompositions of operators on lists of tensors, which do to each what one of torch's does."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

NAMES = (
    *("abs", "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "div", "exp", "lerp", "log"),
    *("maximum", "minimum", "mul", "neg", "pow", "reciprocal", "sign", "sqrt", "sub"),
)
"""Functions of torch that have a form for lists, `_foreach_` and the name."""

SCALED = (torch.addcdiv, torch.addcmul)
"""Functions whose factor has no name in the form for lists: it follows the tensors."""

SCALED_TENSORS = 3
"""Arguments of these behind the first, with the factor."""


def apply_to_each(
    function: Callable[..., Tensor], first: Sequence[Tensor], *others: Any, **options: Any
) -> list[Tensor]:
    """Return what a function makes of the tensors of lists, one by one."""
    rows = [it if isinstance(it, (list, tuple)) else [it] * len(first) for it in others]
    if function in SCALED and len(rows) == SCALED_TENSORS:
        *rows, factors = rows
        return [
            function(*parts, value=factor, **options)
            for *parts, factor in zip(first, *rows, factors, strict=True)
        ]
    return [function(*parts, **options) for parts in zip(first, *rows, strict=True)]


def _list_overloads(name: str) -> list[str]:
    """Return the forms of a function for lists that change none of their arguments."""
    packet = getattr(torch.ops.aten, f"_foreach_{name}")
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    return [str(overload) for overload in overloads if not overload._schema.is_mutable]  # noqa: SLF001 - not public


LISTS: Mapping[str, Callable[..., Any]] = {
    overload: partial(apply_to_each, getattr(torch, name))
    for name in NAMES
    for overload in _list_overloads(name)
} | {"aten._foreach_norm.Scalar": partial(apply_to_each, torch.linalg.vector_norm)}
"""ATen overload -> decomposition."""
