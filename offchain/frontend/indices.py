"""Indices that are integers of tensors: `x[i]` and `x[i] = y` with a counter i of no dimension.

torch makes a number of such an index, which a program does not have. While a step is traced, what
it picks is gathered instead, and what it is given is scattered. What torch picks is a view; so a
step that changes it in place is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from moot.offchain.frontend.lines import LineTracker
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.routes import Routes

_INTEGERS = (torch.int64, torch.int32)

_COPIED = (Tensor, list)
"""Parts of an index that have torch pick a copy."""

_get = torch.Tensor.__getitem__
_set = torch.Tensor.__setitem__


@contextmanager
def gather_by_tensors(tracker: LineTracker, routes: Routes) -> Iterator[None]:
    """Take traced integers as indices.

    Args:
        tracker: knows the user's line.
        routes: knows what is traced.

    Raises:
        CaptureError: what was picked is changed in place, and so is what torch picks it from.
    """
    views: list[tuple[Tensor, int, str]] = []

    def is_traced(part: Any) -> bool:
        is_integer = isinstance(part, Tensor) and not part.ndim and part.dtype in _INTEGERS
        return is_integer and (isinstance(part, FakeTensor) or routes.follow(part) is not part)

    def find(index: Any) -> int | None:
        return next((k for k, part in enumerate(_list_parts(index)) if is_traced(part)), None)

    @wraps(_get)
    def get(x: Tensor, index: Any) -> Any:
        place = find(index)
        if place is None:
            return _get(x, index)
        found = get(*_pick(x, index, place)[1:])
        if not any(isinstance(part, _COPIED) for part in _list_parts(index) if not is_traced(part)):
            views.append((found, found._version, tracker.find_line()))  # noqa: SLF001 - autograd's
        return found

    @wraps(_set)
    def put(x: Tensor, index: Any, value: Any) -> None:
        place = find(index)
        if place is None:
            _set(x, index, value)
            return
        (dim, number), picked, rest = _pick(x, index, place)
        put(picked, rest, value)
        views[:] = [view for view in views if view[0] is not value]  # x[i] += y gives it back
        x.index_copy_(dim, number, picked)

    torch.Tensor.__getitem__ = get  # type: ignore[method-assign, assignment]  # the base class has its own
    torch.Tensor.__setitem__ = put  # type: ignore[method-assign, assignment]  # likewise
    try:
        yield
        for view, version, line in views:
            if view._version != version:  # noqa: SLF001 - likewise
                raise refusal("it is changed in place later; assign to x[i] instead", "x[i]", line)
    finally:
        del torch.Tensor.__getitem__, torch.Tensor.__setitem__


def _list_parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _pick(x: Tensor, index: Any, place: int) -> tuple[tuple[int, Tensor], Tensor, tuple[Any, ...]]:
    """Return the axis and the number of what one part of an index picks, that, and the rest.

    The rest picks from what was picked as the whole index does from x.
    """
    parts = list(_list_parts(index))
    used = [_count_axes(part) for part in parts]
    dim = sum(used[:place])
    if any(part is Ellipsis for part in parts[:place]):
        dim += x.ndim - sum(used)
    number = parts[place].reshape(1)
    number = torch.where(number < 0, number + x.shape[dim], number)
    parts[place] = 0
    return (dim, number), x.index_select(dim, number), tuple(parts)


def _count_axes(part: Any) -> int:
    """Return how many axes a part of an index stands for."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8):
        return part.ndim
    return 1
