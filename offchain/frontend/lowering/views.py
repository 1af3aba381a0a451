"""Lazy strided views, which rearrange a traced tensor without an operator.

A view is a constant, or reads the row-major output of one operator through strides. Permuting,
expanding and slicing a view makes another view. `flatten` turns an access to a view into rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from moot.offchain.arithmetic.functions import DType
from moot.offchain.programs.graph import Row


@dataclass(frozen=True, slots=True)
class View:
    """A tensor seen through strides.

    Attributes:
        dtype: element type.
        shape: dimensions.
        strides: elements between neighbours along each dimension; may be 0 or negative.
        offset: element index of the view's first element.
        node: index of the operator whose output is seen, or None for a constant.
        size: number of elements of that output.
        bits: the constant.
        short: index of an operator of the same shape whose output holds these numbers in a shorter
            type, if they are known to be ones.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    node: int | None = None
    size: int = 1
    bits: int = 0
    short: int | None = None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the view is the operator's whole output in row-major order."""
        flat = merge_strides(self.shape, self.strides, (self.elements,))
        return self.offset == 0 and self.size == self.elements and flat in ((1,), (0,), None)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major tensor."""
    strides = []
    stride = 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(strides[::-1])


def constant(dtype: DType, bits: int, shape: Sequence[int] = ()) -> View:
    """Return a constant of any shape."""
    return View(dtype, tuple(shape), (0,) * len(shape), bits=bits)


def whole(dtype: DType, shape: Sequence[int], node: int) -> View:
    """Return an operator's output."""
    return View(dtype, tuple(shape), contiguous_strides(shape), node=node, size=prod(shape))


def permute(view: View, order: Sequence[int]) -> View:
    """Return the view whose dimension i is dimension order[i]; negative ones count from the end."""
    return replace(
        view,
        shape=tuple(view.shape[d] for d in order),
        strides=tuple(view.strides[d] for d in order),
    )


def expand(view: View, shape: Sequence[int]) -> View:
    """Return the view broadcast to a shape; -1 keeps a dimension."""
    lead = len(shape) - len(view.shape)
    old = (1,) * lead + view.shape
    steps = (0,) * lead + view.strides
    new = tuple(o if n == -1 else n for n, o in zip(shape, old, strict=True))
    strides = tuple(s if n == o else 0 for n, o, s in zip(new, old, steps, strict=True))
    return replace(view, shape=new, strides=strides)


def cut(view: View, dimension: int, start: int, count: int, step: int = 1) -> View:
    """Return `count` elements of one dimension from `start`, `step` (perhaps negative) apart."""
    stride = view.strides[dimension]
    return replace(
        view,
        shape=_with(view.shape, dimension, count),
        strides=_with(view.strides, dimension, stride * step),
        offset=view.offset + (start * stride if view.elements and count else 0),
    )


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def drop(view: View, dimension: int, index: int = 0) -> View:
    """Return the view without a dimension, of which only `index` is seen."""
    kept = cut(view, dimension, index, 1)
    return permute(kept, [d for d in range(len(view.shape)) if d != dimension])


def insert(view: View, dimension: int) -> View:
    """Return the view with a new dimension of one element."""
    shape, strides = list(view.shape), list(view.strides)
    shape.insert(dimension, 1)
    strides.insert(dimension, 0)
    return replace(view, shape=tuple(shape), strides=tuple(strides))


def reshape(view: View, shape: Sequence[int]) -> View | None:
    """Return the view under another shape of as many elements, or None if strides cannot say it."""
    strides = merge_strides(view.shape, view.strides, shape)
    return None if strides is None else replace(view, shape=tuple(shape), strides=strides)


def merge_strides(
    old: Sequence[int], strides: Sequence[int], new: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the strides under which a tensor of shape `old` has the shape `new`, if any."""
    if 0 in old:
        return contiguous_strides(new)
    runs = list(_runs(old, strides))
    result: list[int] = []
    size, stride = runs.pop() if runs else (1, 1)
    inner = 1
    for wanted in reversed(new):
        if wanted == 1:
            result.append(0)
            continue
        if inner == size:
            size, stride = runs.pop()
            inner = 1
        result.append(stride * inner)
        inner *= wanted
        if size % inner:
            return None
    return tuple(result[::-1])


def _runs(shape: Sequence[int], strides: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Merge neighbouring dimensions that one stride can walk; yield (size, innermost stride)."""
    pending: tuple[int, int] | None = None
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if pending and pending[1] == stride * size:
            pending = (pending[0] * size, stride)
            continue
        if pending:
            yield pending
        pending = (size, stride)
    if pending:
        yield pending


def along(variable: int, size: int) -> Row:
    """Return the coordinate that is a variable."""
    return Row(size, 0, ((variable, 1),))


def is_inside(row: Row, extents: Sequence[int | None]) -> bool:
    """Whether a coordinate is always in range; an extent of None is a variable without bounds."""
    low = high = row.offset
    for variable, coefficient in row.terms:
        extent = extents[variable]
        if extent is None:
            return False
        reach = coefficient * (max(extent, 1) - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return row.divisor == 1 and low >= 0 and high < row.size


def flatten(
    view: View, coordinates: Sequence[Row], extents: Sequence[int | None]
) -> tuple[Row, ...] | None:
    """Return rows over the operator's output that address a view, or None if none are exact.

    Args:
        view: not a constant.
        coordinates: for each dimension of the view, the coordinate as a function of the variables.
        extents: the size of each variable; None where it has no bounds.
    """
    if view.elements == 0:
        return (Row(view.size, view.size),)  # never in range
    offset, terms, bounded = _linearize(view, coordinates, extents)
    rows = [row for _, row in bounded if row.size == 1]
    segments = []
    rest = view.size
    for stride, row in sorted(bounded, key=lambda pair: -pair[0]):
        if row.size == 1:
            continue
        if stride < 1 or rest % (stride * row.size):
            return None
        segment, offset, terms = _split(rest, stride * row.size, offset, terms)
        segments.append(segment)
        rows += [segment, row]
        rest = stride
    segment, offset, terms = _split(rest, 1, offset, terms)
    if not all(is_inside(row, extents) for row in (*segments, segment)):
        return None
    return tuple(row for row in (*rows, segment) if row != Row(1))


def _linearize(
    view: View, coordinates: Sequence[Row], extents: Sequence[int | None]
) -> tuple[int, dict[int, int], list[tuple[int, Row]]]:
    """Sum the coordinates that are always in range; return offset, terms and the others."""
    offset = view.offset
    terms: dict[int, int] = {}
    bounded = []
    for row, stride in zip(coordinates, view.strides, strict=True):
        if not is_inside(row, extents):
            bounded.append((stride, row))
            continue
        offset += row.offset * stride
        for variable, coefficient in row.terms:
            terms[variable] = terms.get(variable, 0) + coefficient * stride
    return offset, {v: c for v, c in terms.items() if c and extents[v] != 1}, bounded


def _split(
    size: int, unit: int, offset: int, terms: dict[int, int]
) -> tuple[Row, int, dict[int, int]]:
    """Take what counts whole `unit`s off a linear index; return its row and the rest."""
    taken = {v: c // unit for v, c in terms.items() if c % unit == 0}
    row = Row(size // unit, offset // unit, tuple(sorted(taken.items())))
    return row, offset % unit, {v: c for v, c in terms.items() if v not in taken}
