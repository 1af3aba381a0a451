"""Nesting of what operators take and make: tensors and others, in lists, tuples and dictionaries.

Torch's own walk over trees takes as long as all else that is done with an operator's arguments.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch


def list_leaves(value: Any) -> Iterator[Any]:
    """Yield what lies in a value, or the value where it holds no others."""
    if isinstance(value, (list, tuple)) and type(value) is not torch.Size:
        for part in value:
            yield from list_leaves(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from list_leaves(part)
    else:
        yield value


def map_leaves(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """Return a value with the function's results in place of its leaves.

    Args:
        function: of a leaf, and of what is in its place in others.
        value: the value; of its lists and tuples the results are plain ones.
        others: are nested like it.
    """
    if isinstance(value, (list, tuple)) and type(value) is not torch.Size:
        pairs = zip(value, *others, strict=True)
        parts = [map_leaves(function, *each) for each in pairs]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {
            key: map_leaves(function, part, *(other[key] for other in others))
            for key, part in value.items()
        }
    return function(value, *others)
