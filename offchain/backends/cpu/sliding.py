"""The form of contractions whose window slides over an image: roles, parts, windows and boxes.

One factor is the image, whose coordinates may leave its tensor and may be quotients; the other is a
strided view. The image's variables are rows, the other factor's are columns, those of both are the
batch.

Where a coordinate is divided (the input gradient of a convolution with a stride), or at a border,
terms of the fold are the fill value +0 times b. The output then falls into parts, of which each has
terms of its own; all others may be left out. A term +0 * b with a finite b changes no accumulator
but -0, and what is -0 with such terms is -0 without them. As every b is also a factor of terms that
stay, in each of their elements, one that is not finite shows in results. So where all results are
finite and none is -0, they are those of the whole fold; the results of a part in which no term
stays are the start values, and of these none may be -0 either.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, inf, prod
from typing import ClassVar, NamedTuple

from moot.offchain.planning.accesses import (
    Sizes,
    Strided,
    find_strided,
    get_used,
    restrict,
    row_major,
)
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.programs.graph import Node, Operand, Origin, Row

Ranges = Sequence[range]
"""A box: the range of each variable of a domain."""

_ZEROS = (0, 1 << 31)
_FEW_ROWS = 128
"""Rows whose products cost little more than packing what they are multiplied by."""

_LONG_FOLD = 512
"""Steps of a fold beside which a store costs little."""

_LEAST_SAVING = 32
"""The inverse of the share of terms that is worth parts for a border."""


def _list_variables(form: "Sliding") -> Sequence[int]:
    return (*form.batch, *form.rows, *form.columns, *form.fold)


@dataclass(frozen=True, slots=True)
class Sliding(Form):
    """A contraction of a window that slides over an image.

    Attributes:
        image: place of the image among the node's operands.
        batch: variables of both factors. Of each role, those of more than one value, ascending.
        rows: variables of the image and the output.
        columns: variables of the other factor and the output.
        fold: variables of the fold.
        parts: boxes that make up the output, each with all of its terms that may not be left out.
    """

    image: int
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    fold: tuple[int, ...]
    parts: list[list[range]]

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "image", "one of the two factors is the image", lambda form: form.image in {1, 2}
        ),
        Precondition(
            "roles",
            "every variable has one role, and there is a fold",
            lambda form: form.fold and max(Counter(_list_variables(form)).values()) == 1,
        ),
        Precondition(
            "parts",
            "there are boxes, all of one domain",
            lambda form: len({len(part) for part in form.parts}) == 1,
        ),
    )


class Window(NamedTuple):
    """A box of an image: planes of rows and columns, some of which may be outside.

    Attributes:
        plane: number of the first plane in the image.
        places: how many planes each variable that chooses one chooses from, and their distance.
        first: the first row and column, of any sign.
        shape: planes, rows and columns.
        access: the access in a copy of the window.
    """

    plane: int
    places: tuple[tuple[int, int], ...]
    first: tuple[int, int]
    shape: tuple[int, int, int]
    access: Strided


def find_sliding(node: Node, least_saved: float) -> Sliding | None:
    """Return how a contraction slides a window over an image, or None if it does not.

    Args:
        node: a contract node with a positive number of elements and of fold steps.
        least_saved: how many terms of an element, on average, are worth parts for a border.
    """
    sizes, rank = node.shape + node.fold_shape, len(node.shape)
    init, *factors = node.operands
    used = [get_used(operand, sizes) for operand in factors]
    live = [v for v in range(rank) if sizes[v] > 1]
    owners = {v: tuple(v in variables for variables in used) for v in live}
    if not live or (False, False) in owners.values() or all(owners[live[-1]]):
        return None
    mine = owners[live[-1]]
    if _is_better_turned(node, mine):
        mine = mine[::-1]
    image = mine.index(True)
    batch, rows, columns = (
        tuple(v for v in live if owners[v] == kind) for kind in ((True, True), mine, mine[::-1])
    )
    fold = tuple(v for v in range(rank, len(sizes)) if sizes[v] > 1)
    is_zero = factors[image].value in _ZEROS
    parts = _split(factors[image].rows, sizes, rank, least_saved if is_zero else inf)
    is_sliding = (
        parts is not None
        and fold
        and all(operand.origin is not Origin.IMMEDIATE for operand in factors)
        and find_strided(factors[1 - image].rows, sizes) is not None
        and _has_windows(factors[image].rows, sizes)
        and _is_uniform(init, sizes, rows)
        and (len(parts) == 1 or is_zero)
    )
    if parts is None or not is_sliding:
        return None
    return make_form(Sliding, 1 + image, batch, rows, columns, fold, parts)


def _is_better_turned(node: Node, last: Sequence[bool]) -> bool:
    """Whether to pack the factor that owns the result's last variable, since it has so few rows.

    To pack the other one costs much beside multiplying it by them. A result that is turned costs a
    store for each element, so that its fold has to be long.
    """
    sizes, rank = node.shape + node.fold_shape, len(node.shape)
    init, *factors = node.operands
    if any(find_strided(factor.rows, sizes) is None for factor in factors):
        return False
    used = [{v for v in get_used(factor, sizes) if v < rank} for factor in factors]
    mine, other = (used[i] - used[1 - i] for i in (last.index(True), last.index(False)))
    is_long = prod(node.fold_shape) >= _LONG_FOLD
    few, many = (prod(sizes[v] for v in variables) for variables in (mine, other))
    is_smaller = few <= _FEW_ROWS and few < many
    return is_long and is_smaller and _is_uniform(init, sizes, sorted(other))


def _is_uniform(operand: Operand, sizes: Sizes, variables: Sequence[int]) -> bool:
    """Whether an operand is a view that does not depend on some variables."""
    if operand.origin is Origin.IMMEDIATE:
        return True
    is_view = find_strided(operand.rows, sizes) is not None
    return is_view and not set(variables).intersection(get_used(operand, sizes))


def _has_windows(rows: Sequence[Row], sizes: Sizes) -> bool:
    """Whether only the last two coordinates ever leave the tensor."""
    return find_strided(rows[:-2], sizes) is not None


def _split(
    rows: Sequence[Row], sizes: Sizes, rank: int, least_saved: float
) -> list[list[range]] | None:
    """Return the parts, or None where quotients are not of an output's and a fold's variable.

    Borders are parts of their own where that leaves out so many terms of an element, on average.
    """
    parts = [[range(size) for size in sizes]]
    for row in rows:
        is_window = len(row.terms) == 2 and row.terms[0][0] < rank <= row.terms[1][0]
        if row.divisor > 1 and not is_window:
            return None
        if not is_window or find_strided([row], sizes) is not None:
            continue
        (outer, _), (inner, _) = row.terms
        if any(len(part[v]) < sizes[v] for part in parts for v in (outer, inner)):
            return None
        pieces = _split_row(row, sizes[outer], sizes[inner], least_saved / prod(sizes[rank:]))
        if row.divisor > 1 and not _covers(pieces, sizes[inner]):
            return None
        parts = [
            [places if v == outer else steps if v == inner else r for v, r in enumerate(part)]
            for part in parts
            for places, steps in pieces
        ]
    return parts


def _covers(pieces: Sequence[tuple[range, range]], inner: int) -> bool:
    """Whether each value of the fold's variable has its place in some piece."""
    return len(set().union(*(steps for _, steps in pieces))) == inner


def _split_row(row: Row, outer: int, inner: int, least_saved: float) -> list[tuple[range, range]]:
    """Return the values of the two variables at which a coordinate is whole, by remainders.

    Values of the first that have other values of the second in range are apart where that leaves
    out at least `least_saved` of all pairs, and more than one in `_LEAST_SAVING`.
    """
    (_, c), (_, d) = row.terms
    common = gcd(d, row.divisor)
    period = row.divisor // common
    pieces = []
    for remainder in range(min(row.divisor, outer)):
        places = range(remainder, outer, row.divisor)
        rest = -(row.offset + c * remainder)
        first = rest // common * pow(d // common, -1, period) % period
        pieces.append((places, range(first, inner, period) if rest % common == 0 else range(0)))
    if inner > outer:
        return pieces
    fine = [piece for coarse in pieces for piece in _split_borders(row, *coarse)]
    before, after = (sum(len(x) * len(y) for x, y in some) for some in (pieces, fine))
    saved = before - after
    is_worthwhile = saved * _LEAST_SAVING > before and saved >= least_saved * outer * inner
    return fine if is_worthwhile and _covers(fine, inner) else pieces


def _split_borders(row: Row, places: range, steps: range) -> list[tuple[range, range]]:
    """Return pieces of a piece in which all pairs are in range."""
    (_, c), (_, d) = row.terms
    found: list[tuple[range, range]] = []
    for place in places:
        start = row.offset + c * place
        inside = [step for step in steps if 0 <= start + d * step < row.size * row.divisor]
        own = range(inside[0], inside[-1] + 1, steps.step) if inside else range(0)
        if found and found[-1][1] == own:
            before = found.pop()[0]
            found.append((range(before.start, place + 1, places.step), own))
        else:
            found.append((range(place, place + 1, places.step), own))
    return found


def find_window(image: Operand, ranges: Ranges) -> Window:
    """Return the window that an access reads in a box, in which its coordinates are whole."""
    rows = restrict(image, ranges).rows
    sizes = tuple(len(r) for r in ranges)
    planes = find_strided(rows[:-2], sizes)
    assert planes is not None
    used = [v for v, stride in enumerate(planes.strides) if stride]
    counts = [sizes[v] for v in used]
    first, shape = [0, 0], [prod(counts), 1, 1]
    inner = rows[-2:]
    for axis, row in enumerate(inner, start=2 - len(inner)):
        ends = [c * (sizes[v] - 1) for v, c in row.terms]
        first[axis] = row.offset + sum(end for end in ends if end < 0)
        shape[axis + 1] = 1 + sum(abs(end) for end in ends)
    nest = row_major([*counts, *shape[1:]])
    offset, strides = 0, [0] * len(ranges)
    for variable, stride in zip(used, nest, strict=False):
        strides[variable] += stride
    for row, low, stride in zip(inner, first[-len(inner) :], nest[-len(inner) :], strict=True):
        offset += (row.offset - low) * stride
        for variable, coefficient in row.terms:
            strides[variable] += coefficient * stride
    return Window(
        planes.offset,
        tuple((count, planes.strides[v]) for v, count in zip(used, counts, strict=True)),
        (first[0], first[1]),
        (shape[0], shape[1], shape[2]),
        Strided(offset, tuple(strides)),
    )


def find_direct(image: Operand, ranges: Ranges) -> Strided | None:
    """Return the form of an access in a box that it does not leave, or else None."""
    return find_strided(restrict(image, ranges).rows, tuple(len(r) for r in ranges))


def join(ranges: Ranges, others: Ranges, variables: Sequence[int]) -> list[range]:
    """Return a box in which some variables have their ranges of another box."""
    return [others[v] if v in variables else r for v, r in enumerate(ranges)]


def fix(ranges: Ranges, variables: Sequence[int], values: Sequence[int]) -> list[range]:
    """Return a box in which some variables have one value each."""
    fixed = dict(zip(variables, values, strict=True))
    return [range(fixed[v], fixed[v] + 1) if v in fixed else r for v, r in enumerate(ranges)]


def cut(ranges: Ranges, variable: int, pieces: int) -> list[list[range]]:
    """Return a box in at most so many pieces along a variable, the first one the largest."""
    whole = ranges[variable]
    step = -(-len(whole) // pieces)
    return [
        [whole[i : i + step] if v == variable else r for v, r in enumerate(ranges)]
        for i in range(0, len(whole), step)
    ]


def count(ranges: Ranges, variables: Sequence[int]) -> int:
    """Return the number of values that variables have together in a box."""
    return prod(len(ranges[v]) for v in variables)
