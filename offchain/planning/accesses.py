"""The form of an access on a domain: affine everywhere, or affine on boxes of the domain.

An access whose rows are in range on the whole domain is affine. Any other access is affine on boxes
of the domain: once some variables are enumerated (a kernel's positions in a convolution, for
instance), every row constrains one variable, to an arithmetic progression.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product
from math import gcd, prod
from typing import NamedTuple

from moot.offchain.programs.graph import Operand, Row

Sizes = tuple[int, ...]
"""Extents of the variables of a domain, none of them 0."""

_MAX_BOXES = 4_096
_FEW_BOXES = 16
_REMEMBERED = 1 << 14
"""Accesses whose affine form is remembered."""

_LEAST_BOX = 256
"""Elements of a box, on average, that are worth a copy of their own where there are many boxes."""


class Strided(NamedTuple):
    """An affine access: the element index is offset + sum of stride * variable."""

    offset: int
    strides: tuple[int, ...]


class Box(NamedTuple):
    """A part of the domain (a progression of every variable), and the affine access inside it."""

    region: tuple[slice, ...]
    shape: Sizes
    strided: Strided


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense array, in elements."""
    strides, step = [0] * len(sizes), 1
    for axis in reversed(range(len(sizes))):
        strides[axis] = step
        step *= sizes[axis]
    return tuple(strides)


def restrict(operand: Operand, ranges: Sequence[range]) -> Operand:
    """Return the access on a part of its domain: variable v becomes ranges[v][v']."""
    rows = tuple(_substitute(row, ranges) for row in operand.rows)
    return replace(operand, rows=rows)


def project(operand: Operand, variables: Sequence[int]) -> Operand:
    """Return the access as one of these variables, numbered anew, the others being 0."""
    places = {variable: place for place, variable in enumerate(variables)}
    rows = tuple(
        replace(row, terms=tuple(sorted((places[v], c) for v, c in row.terms if v in places)))
        for row in operand.rows
    )
    return replace(operand, rows=rows)


def get_used(operand: Operand, sizes: Sizes) -> list[int]:
    """Return the variables of more than one value that an access depends on, ascending."""
    return sorted({v for row in operand.rows for v, _ in row.terms if sizes[v] > 1})


def collapse(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
    """Return the one stride of several nested variables taken as one, or None if there is none."""
    nested = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size > 1]
    if any(a[1] != b[0] * b[1] for a, b in pairwise(nested)):
        return None
    return nested[-1][1] if nested else 0


def collapse_groups(
    sizes: Sequence[int], groups: Sequence[Sequence[int]], strided: Strided
) -> Strided | None:
    """Return an access as one of groups of nested variables, or None if some have no one stride."""
    strides = []
    for group in groups:
        stride = collapse([sizes[v] for v in group], [strided.strides[v] for v in group])
        if stride is None:
            return None
        strides.append(stride)
    return Strided(strided.offset, tuple(strides))


def is_inside(strided: Strided, sizes: Sequence[int], elements: int) -> bool:
    """Whether an affine access reads nothing but elements of a tensor that has so many."""
    ends = [stride * (size - 1) for stride, size in zip(strided.strides, sizes, strict=True)]
    low, high = (strided.offset + sum(e for e in ends if sign * e > 0) for sign in (-1, 1))
    return low >= 0 and high < elements


def find_strided(rows: Sequence[Row], sizes: Sizes) -> Strided | None:
    """Return the affine form of an access that is in range on its whole domain, or else None."""
    return _find_strided(tuple(rows), tuple(sizes))


@lru_cache(maxsize=_REMEMBERED)
def _find_strided(rows: tuple[Row, ...], sizes: Sizes) -> Strided | None:
    """Return what `find_strided` does; layers of a model have the same accesses over and over."""
    ranges = [range(size) for size in sizes]
    simple = [_substitute(row, ranges) for row in rows]
    return _flatten(simple, len(sizes)) if all(_is_in_range(r, sizes) for r in simple) else None


def find_affine(rows: Sequence[Row], sizes: Sizes) -> tuple[list[Row], Strided] | None:
    """Return an access's rows without divisors, and its affine form where it is in range.

    It is None where a divisor does not cancel.
    """
    ranges = [range(size) for size in sizes]
    simple = [_substitute(row, ranges) for row in rows]
    if any(row.divisor > 1 for row in simple):
        return None
    return simple, _flatten(simple, len(sizes))


def estimate_strides(rows: Sequence[Row], sizes: Sizes) -> tuple[int, ...]:
    """Return about the strides of an access where it is in range.

    Divisors that don't cancel are left out, so that these strides may choose a layout, and address
    nothing.
    """
    ranges = [range(size) for size in sizes]
    return _flatten([_substitute(row, ranges) for row in rows], len(sizes)).strides


def find_boxes(rows: Sequence[Row], sizes: Sizes) -> list[Box] | None:
    """Return disjoint boxes that are all of an access's range, or None where they are too many."""
    whole = [range(size) for size in sizes]
    simple = [_substitute(row, whole) for row in rows]
    enumerated = _choose_enumerated([r for r in simple if not _is_in_range(r, sizes)], sizes)
    count = prod(sizes[variable] for variable in enumerated)
    if count > _FEW_BOXES and (count > _MAX_BOXES or prod(sizes) < count * _LEAST_BOX):
        return None
    boxes = []
    for values in product(*(whole[variable] for variable in enumerated)):
        ranges = list(whole)
        for variable, value in zip(enumerated, values, strict=True):
            ranges[variable] = range(value, value + 1)
        box = _solve_box(simple, ranges)
        if box is not None:
            boxes.append(box)
    return boxes


def _substitute(row: Row, ranges: Sequence[range]) -> Row:
    """Return the row over the positions in the ranges, without variables of one value, reduced."""
    offset = row.offset + sum(c * ranges[v].start for v, c in row.terms)
    terms = [(v, c * ranges[v].step) for v, c in row.terms if len(ranges[v]) > 1]
    common = gcd(row.divisor, offset, *(c for _, c in terms))
    reduced = tuple((v, c // common) for v, c in terms)
    return Row(row.size, offset // common, reduced, row.divisor // common)


def _is_in_range(row: Row, sizes: Sequence[int]) -> bool:
    ends = [c * (sizes[v] - 1) for v, c in row.terms]
    low = row.offset + sum(end for end in ends if end < 0)
    high = row.offset + sum(end for end in ends if end > 0)
    return row.divisor == 1 and low >= 0 and high < row.size


def _flatten(rows: Sequence[Row], variables: int) -> Strided:
    offset, strides = 0, [0] * variables
    for row in rows:
        offset = offset * row.size + row.offset
        strides = [stride * row.size for stride in strides]
        for variable, coefficient in row.terms:
            strides[variable] += coefficient
    return Strided(offset, tuple(strides))


def _choose_enumerated(loose: Sequence[Row], sizes: Sizes) -> list[int]:
    chosen: set[int] = set()
    for row in loose:
        free = sorted((v for v, _ in row.terms if v not in chosen), key=lambda v: sizes[v])
        chosen.update(free[:-1])
    return sorted(chosen)


def _solve_box(rows: Sequence[Row], ranges: list[range]) -> Box | None:
    for row in rows:
        here = _substitute(row, ranges)
        if _is_in_range(here, [len(r) for r in ranges]):
            continue
        if not here.terms:
            return None
        ((variable, _),) = here.terms
        inside = _solve_row(here, len(ranges[variable]))
        if not inside:
            return None
        ranges[variable] = ranges[variable][inside.start : inside.stop : inside.step]
    region = tuple(slice(r.start, r[-1] + 1, r.step) for r in ranges)
    strided = _flatten([_substitute(row, ranges) for row in rows], len(ranges))
    return Box(region, tuple(len(r) for r in ranges), strided)


def _solve_row(row: Row, extent: int) -> range:
    """Return the values of a row's only variable, below `extent`, at which the row is in range."""
    ((_, coefficient),) = row.terms
    top = row.divisor * (row.size - 1) - row.offset
    bounds = (-row.offset, top) if coefficient > 0 else (top, -row.offset)
    low, high = max(-(-bounds[0] // coefficient), 0), min(bounds[1] // coefficient, extent - 1)
    common = gcd(coefficient, row.divisor)
    if row.offset % common:
        return range(0)
    period = row.divisor // common
    residue = -row.offset // common * pow(coefficient // common, -1, period) % period
    return range(low + (residue - low) % period, high + 1, period)


def iterate_slabs(
    ranges: list[range], order: Sequence[int], cost: Callable[[Sequence[range]], int], limit: int
) -> Iterator[list[range]]:
    """Yield parts of a domain that cost at most `limit`, or else have one value of all in `order`.

    Args:
        ranges: the domain.
        order: the variables that may be split, the first to be split first.
        cost: what a part costs.
        limit: what a part may cost.
    """
    total = cost(ranges)
    if total <= limit or not order:
        yield ranges
        return
    variable, *rest = order
    whole = ranges[variable]
    most = max(1, limit * len(whole) // total)
    chunk = -(-len(whole) // -(-len(whole) // most))  # of about equal parts
    for start in range(0, len(whole), chunk):
        part = list(ranges)
        part[variable] = whole[start : start + chunk]
        yield from iterate_slabs(part, rest, cost, limit)


def coalesce(shape: Sizes, layouts: Sequence[Sequence[int]]) -> tuple[Sizes, list[tuple[int, ...]]]:
    """Merge the axes of a shape that every layout nests seamlessly; at least one axis remains."""
    sizes: list[int] = []
    columns: list[tuple[int, ...]] = []
    for axis, size in enumerate(shape):
        strides = tuple(layout[axis] for layout in layouts)
        if size == 1:
            continue
        if sizes and columns[-1] == tuple(stride * size for stride in strides):
            sizes[-1] *= size
            columns[-1] = strides
        else:
            sizes.append(size)
            columns.append(strides)
    if not sizes:
        return (1,), [(0,)] * len(layouts)
    return tuple(sizes), [tuple(column[i] for column in columns) for i in range(len(layouts))]
