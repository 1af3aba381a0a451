"""Coordinates of what a mask selects, and what is read from such places or written to them.

`torch.where(mask)` and `mask.nonzero()` have as many rows as data says. While a step is traced,
they return `Coordinates`, one for each axis of the mask: selections, whose elements are where all
others of the mask are. So `x[rows]`, `w[rows, slots]` and `y.index_add_(0, rows, z)` arrange
elements in the order of the mask, and gather or scatter nothing. Integers that are computed of
coordinates, or that a mask has selected, are places of elements as well.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from types import FrameType
from typing import Any, NoReturn

import torch
from torch import Tensor

from moot.offchain.frontend.selections import Mask, Selection, spread

Refuse = Callable[[str], NoReturn]

_INTEGERS = (torch.int64, torch.int32)


class Coordinates(Selection):
    """The places along one axis of a mask that it selects.

    Args:
        mask: the mask.
        axis: the axis.
        refuse: raises the error that names a function that has no value.
    """

    def __init__(self, mask: Mask, axis: int, refuse: Refuse) -> None:
        self.mask, self.axis, self.refuse = mask, axis, refuse
        self.lead = tuple(size if a == axis else 1 for a, size in enumerate(mask.shape))

    def answer(self, name: str, frame: FrameType) -> Any:
        """Return what a loop over the places goes over: all of them."""
        if name != "iter" or len(self.mask.shape) > 1:
            return super().answer(name, frame)
        return _loop(self, frame, torch.tensor)

    @cached_property
    def rows(self) -> Tensor:  # type: ignore[override]  # made where a step computes with them
        """INT64 (prod(lead),), the places as numbers."""
        places = torch.arange(self.mask.shape[self.axis])
        return self.mask.hide(places, self.lead, torch.zeros_like(places[:1]))


class Positions(Selection):
    """The places that a mask selects, as rows of a matrix: what `mask.nonzero()` returns.

    Args:
        columns: the coordinates.
    """

    def __init__(self, columns: Sequence[Coordinates]) -> None:
        first = columns[0]
        self.columns, self.mask, self.refuse = tuple(columns), first.mask, first.refuse
        self.lead = first.mask.shape

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the coordinates that a function takes out of the matrix, or what it computes."""
        own, *rest = args
        if isinstance(own, Positions) and not kwargs:
            name = func.__name__.strip("_")
            if name == "getitem" and isinstance(rest[0], tuple) and len(rest[0]) == 2:
                first, column = rest[0]
                is_whole = isinstance(first, slice) and first == slice(None)
                if is_whole and isinstance(column, int):
                    return own.columns[column]
            is_last = len(rest) == 1 and isinstance(rest[0], int) and rest[0] in (1, -1)
            if name == "t" or (name == "unbind" and is_last):
                return own.columns
            is_flat = name in ("view", "reshape") and rest == [-1]
            is_flat = is_flat or (name == "squeeze" and is_last) or (name, rest) == ("flatten", [])
            if len(own.columns) == 1 and is_flat:
                return own.columns[0]
        return super().__torch_function__(func, types, args, kwargs)

    def answer(self, name: str, frame: FrameType) -> Any:
        """Return what a loop over the rows goes over: all of them."""
        if name != "iter" or len(self.columns) > 1:
            return super().answer(name, frame)
        return _loop(self, frame, lambda place: torch.tensor([place]))

    @property
    def T(self) -> tuple[Coordinates, ...]:  # noqa: N802 - torch's name
        """The coordinates, axis by axis."""
        return self.columns

    @cached_property
    def rows(self) -> Tensor:  # type: ignore[override]  # likewise
        """INT64 (N, axes), the places as numbers."""
        return torch.stack([column.lay_out().rows for column in self.columns], 1)


class Raised(Selection):
    """What is selected, behind an axis of size 1: `x[None, rows]`, before it is reshaped."""

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what is selected, where a function takes the first axis away."""
        del types
        own = next(it for it in args if isinstance(it, Raised))
        name, rest = func.__name__.strip("_"), [*args[1:]]
        row = [-1, *own.rows.shape[1:]]
        sizes = [*rest[0]] if len(rest) == 1 and isinstance(rest[0], tuple) else rest
        is_known = args[0] is own and all(isinstance(size, int) for size in sizes)
        is_flat = is_known and name in ("view", "reshape") and sizes == row
        is_first = is_known and name in ("squeeze", "getitem") and sizes == [0]
        if kwargs or not (is_flat or is_first):
            own.refuse(f"{name} of x[None]")
        return own.replace(own.rows)


def _loop(places: Selection, frame: FrameType, make: Callable[[int], Tensor]) -> Any:
    regions = places.mask.regions
    regions.why = ""
    found = regions.loop(frame, places.mask.tensor, make)
    if found is None:
        places.refuse("iter" + regions.why)
    return found


def read(x: Tensor, heads: Sequence[Selection], refuse: Refuse) -> Selection:
    """Return what lies at places of the first axes of a tensor.

    Args:
        x: the tensor.
        heads: the places, axis by axis.
        refuse: raises the error that names a function that has no value.
    """
    mask = _join(heads, "indexing", refuse)
    axes = _find_axes(x, heads)
    if axes is None:
        found = mask.tensor.any()
        numbers, lead = heads[0].join("indexing", [*heads])
        places = tuple(torch.where(found, it, 0) for it in numbers)
        return Selection(x[places], mask, lead, refuse)
    for place, axis in enumerate(axes):
        x = _cut(x, place, mask.shape[axis])
    order = sorted(range(len(axes)), key=axes.__getitem__)
    lead = tuple(size if axis in axes else 1 for axis, size in enumerate(mask.shape))
    rows = x.permute(*order, *range(len(axes), x.ndim))
    rows = rows.reshape(prod(lead), *x.shape[len(axes) :])
    return Selection(mask.hide(rows, lead, torch.ones_like(rows[:1])), mask, lead, refuse)


def add(x: Tensor, heads: Sequence[Selection], values: Any, refuse: Refuse) -> Tensor:
    """Return a tensor to which values are added at places of its first axes."""
    mask = _join(heads, "addition", refuse)
    filled = _match(x, heads, values, refuse).fill(0)
    axes = _find_axes(x, heads)
    if axes is None or any(mask.shape[a] != x.shape[i] for i, a in enumerate(axes)):
        numbers = tuple(head.lay_out().rows for head in heads)
        rows = filled.expand(-1, *x.shape[len(heads) :])
        with mask.regions.aside():
            return x.index_put(numbers, rows, accumulate=True)
    others = [axis for axis in range(len(mask.shape)) if axis not in axes]
    parts = filled.reshape(*mask.shape, *filled.shape[1:])
    total = _order(parts.sum(others) if others else parts, axes)
    with mask.regions.aside():
        return x + total


def put(x: Tensor, heads: Sequence[Selection], values: Any, refuse: Refuse) -> Tensor:
    """Return a tensor that has values at places of its first axes.

    Where two values have one place, the last one stays, as in torch.
    """
    mask = _join(heads, "assignment", refuse)
    chosen = _match(x, heads, values, refuse)
    axes = _find_axes(x, heads)
    is_whole = axes is not None and [mask.shape[a] for a in axes] == [*x.shape[: len(axes)]]
    if axes is not None and is_whole and len(axes) == len(mask.shape):
        parts = _order(chosen.rows.reshape(*mask.shape, *chosen.rows.shape[1:]), axes)
        is_selected = _order(mask.see(mask.shape).reshape(mask.shape), axes)
        with mask.regions.aside():
            return torch.where(spread(is_selected, x), parts, x)
    sizes, rest = x.shape[: len(heads)], x.shape[len(heads) :]
    place = torch.zeros((), dtype=torch.int64)
    for head, size in zip(heads, sizes, strict=True):
        place = place * size + head.lay_out().rows
    places = torch.where(chosen.is_selected, place, prod(sizes))
    rows = chosen.rows.to(x.dtype)
    with mask.regions.aside():
        line = torch.cat([x.reshape(prod(sizes), *rest), x.new_zeros(1, *rest)])
        return line.index_put((places,), rows)[: prod(sizes)].reshape(x.shape)


def look_up(
    func: Any, numbers: Selection, others: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Return the rows of a table whose numbers are selected."""
    if options.get("max_norm") is not None:
        numbers.refuse("embedding (with these arguments)")
    known = numbers.replace(torch.where(numbers.mask.tensor.any(), numbers.rows, 0))
    return known.map("embedding", func, (known, *others), options)


def _join(heads: Sequence[Selection], name: str, refuse: Refuse) -> Mask:
    """Return the mask that places share."""
    mask = heads[0].mask
    if any(head.mask is not mask for head in heads):
        refuse(f"{name} (with what another mask selects)")
    if any(it.rows.dtype not in _INTEGERS for it in heads if not isinstance(it, Coordinates)):
        refuse(f"{name} (by what are no integers)")
    return mask


def _find_axes(x: Tensor, heads: Sequence[Selection]) -> list[int] | None:
    """Return the axes of the mask that the first ones of a tensor are; None if they are not."""
    axes = [head.axis for head in heads if isinstance(head, Coordinates)]
    if len({*axes}) != len(heads) or len(heads) > x.ndim:
        return None
    sizes = [heads[0].mask.shape[axis] for axis in axes]
    is_long = all(size <= x.shape[place] for place, size in enumerate(sizes))
    return axes if is_long else None


def _match(x: Tensor, heads: Sequence[Selection], values: Any, refuse: Refuse) -> Selection:
    """Return values for places of a tensor, a row for each element of the mask."""
    mask, rest = heads[0].mask, x.shape[len(heads) :]
    if not isinstance(values, Selection):
        row = torch.as_tensor(values, dtype=x.dtype)
        if row.ndim > len(rest) + 1 or (row.ndim == len(rest) + 1 and len(row) != 1):
            refuse(f"assignment (of a tensor {list(row.shape)})")
        return Selection(row.expand(prod(mask.shape), *rest), mask, mask.shape, refuse)
    if values.mask is not mask:
        refuse("assignment (to another mask)")
    if values.rows.ndim != len(rest) + 1:
        refuse(f"assignment (of rows {list(values.rows.shape[1:])})")
    return values.lay_out()


def _order(parts: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a tensor whose first axes, sorted, are those of a mask, in the order of some axes."""
    order = [sorted(axes).index(axis) for axis in axes]
    return parts.permute(*order, *range(len(axes), parts.ndim))


def _cut(x: Tensor, dim: int, size: int) -> Tensor:
    return x if x.shape[dim] == size else x.narrow(dim, 0, size)


def list_coordinates(mask: Mask, refuse: Refuse) -> Iterator[Coordinates]:
    """Yield the coordinates of what a mask selects, axis by axis."""
    for axis in range(len(mask.shape)):
        yield Coordinates(mask, axis, refuse)
