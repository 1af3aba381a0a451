"""Random accesses: rows in range everywhere, in some places or nowhere, written in many ways."""

from math import prod
from random import Random

from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import ProgramError
from moot.offchain.programs.graph import Node, Row
from moot.offchain.programs.legality import check_node
from moot.offchain.programs.limits import MAX_RANK, MAX_TERMS

Terms = dict[int, int]
"""The coefficients of a row by variable."""

BIG = (2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1)
"""Coefficients, offsets and sizes beyond which one type or another overflows."""
MOST_ELEMENTS = 400
"""Of a tensor that an access is drawn for."""


def draw_rows(rng: Random, sizes: list[int], extra: int = 0) -> tuple[Row, ...]:
    """Return rows of a tensor of at most `MOST_ELEMENTS` elements.

    Args:
        rng: draws.
        sizes: extents of the variables that have one.
        extra: variables behind them, without bounds: the values of index operands.
    """
    style = rng.randrange(8)
    usable = [v for v in range(len(sizes)) if sizes[v]]
    if style <= 2:
        chosen = [v for v in usable if rng.random() < 0.8]
        if style == 2:
            rng.shuffle(chosen)
        rows = [_draw_axis(rng, sizes[v], v) for v in chosen[:MAX_RANK]]
    elif style == 3:
        rows = [_draw_flat(rng, sizes, usable)]
    elif style == 4:
        rows = [_draw_window(rng, sizes, usable) for _ in range(rng.randint(1, 2))]
        rows = [_draw_axis(rng, sizes[v], v) for v in usable if rng.random() < 0.3] + rows
    else:
        rows = [_draw_any(rng, len(sizes) + extra) for _ in range(rng.randint(0, 4))]
    indices = [_draw_named(rng, len(sizes) + i) for i in range(extra) if rng.random() < 0.9]
    for row in indices:
        rows.insert(rng.randint(0, len(rows)), row)
    if rng.random() < 0.04:
        rows.insert(rng.randint(0, len(rows)), Row(0, rng.randint(-1, 1)))
    return tuple(disguise(rng, row) for row in _limit(rows))


def draw_rows_of(rng: Random, elements: int, sizes: list[int], extra: int = 0) -> tuple[Row, ...]:
    """Return rows of a tensor that exists, of so many elements."""
    factors = _factor(rng, elements)
    variables = list(range(len(sizes) + extra))
    rng.shuffle(variables)
    rows = []
    for size in factors:
        fitting = [v for v in variables if v >= len(sizes) or 1 < sizes[v] <= size]
        if fitting and rng.random() < 0.85:
            variable = fitting[0]
            variables.remove(variable)
            slack = size - sizes[variable] if variable < len(sizes) else 0
            offset = rng.choice((0, 0, rng.randint(0, slack), -1))
            step = rng.choice((1, 1, 1, 2, -1))
            rows.append(Row(size, offset if step > 0 else size - 1, ((variable, step),)))
        else:
            row = _draw_any(rng, len(sizes) + extra)
            rows.append(Row(size, row.offset, row.terms, row.divisor))
    return tuple(disguise(rng, row) for row in rows)


def _factor(rng: Random, elements: int) -> list[int]:
    """Return at most eight sizes with this product, in any order."""
    if elements == 0:
        sizes = [rng.choice((0, 1, 2, 3, *BIG[:2])) for _ in range(rng.randint(0, 2))]
        return [*sizes, 0]
    sizes, rest = [], elements
    while rest > 1 and len(sizes) < MAX_RANK - 1:
        divisors = [d for d in range(2, min(rest, 64) + 1) if rest % d == 0]
        size = rng.choice([*divisors, rest])
        sizes.append(size)
        rest //= size
    if rest > 1:
        sizes.append(rest)
    sizes += [1] * rng.choice((0, 0, 0, MAX_RANK - len(sizes), rng.randint(0, MAX_RANK)))
    rng.shuffle(sizes)
    return sizes if prod(sizes[:MAX_RANK]) == elements and len(sizes) <= MAX_RANK else [elements]


def _limit(rows: list[Row]) -> list[Row]:
    """Leave out rows so that there are few elements, and not too many rows."""
    kept: list[Row] = []
    for row in rows[:MAX_RANK]:
        if prod(r.size for r in kept) * row.size <= MOST_ELEMENTS:
            kept.append(row)
    return kept


def _draw_axis(rng: Random, size: int, variable: int) -> Row:
    """Return a row along one variable: whole, shifted, backwards, in steps, or padded."""
    step = rng.choice((1, 1, 1, 1, 1, 2, 3, -1, -2))
    reach = abs(step) * (size - 1) + 1
    slack = rng.choice((0, 0, 0, 0, 1, 2, -1))
    before = rng.choice((0, 0, 0, 1, -1))
    offset = before if step > 0 else reach - 1 + before
    return Row(max(reach + slack, 1), offset, ((variable, step),))


def _draw_flat(rng: Random, sizes: list[int], usable: list[int]) -> Row:
    """Return one row for several variables, nested in any order, with gaps or without."""
    chosen = [v for v in usable if rng.random() < 0.8][:MAX_TERMS]
    rng.shuffle(chosen)
    terms: Terms = {}
    stride = 1
    for variable in chosen:
        if stride * sizes[variable] > MOST_ELEMENTS:
            break
        terms[variable] = stride
        stride = stride * sizes[variable] + rng.choice((0, 0, 0, 0, 1, -1))
        stride = max(stride, 1)
    offset = rng.choice((0, 0, 0, 1, -1))
    return Row(max(1, stride + rng.choice((0, 0, 1, -1))), offset, tuple(sorted(terms.items())))


def _draw_window(rng: Random, sizes: list[int], usable: list[int]) -> Row:
    """Return a coordinate of a window that slides over an image, or of the reverse of that."""
    pair = rng.sample(usable, min(2, len(usable)))
    terms = {v: rng.choice((1, 1, 2, 3, -1)) for v in pair}
    reach = sum(abs(c) * (sizes[v] - 1) for v, c in terms.items())
    divisor = rng.choice((1, 1, 2, 3))
    size = max(1, reach // divisor + rng.choice((1, 1, 0, -1, -2)))
    low = sum(c * (sizes[v] - 1) for v, c in terms.items() if c < 0)
    return Row(size, rng.choice((0, 0, 1, -1, -2)) - low, tuple(sorted(terms.items())), divisor)


def _draw_any(rng: Random, variables: int) -> Row:
    """Return a row of any terms, which may be huge."""
    count = min(variables, rng.choice((0, 0, 1, 1, 2, 3, MAX_TERMS)))
    is_huge = rng.random() < 0.1
    names = sorted(rng.sample(range(variables), count))
    terms = tuple((v, _draw_number(rng, is_huge=is_huge) or 1) for v in names)
    divisor = rng.choice((1, 1, 1, 2, 3, 4, 2**32 - 1 if is_huge else 1))
    return Row(rng.randint(1, 7), _draw_number(rng, is_huge=is_huge), terms, divisor)


def _draw_number(rng: Random, *, is_huge: bool) -> int:
    if is_huge and rng.random() < 0.5:
        return rng.choice((1, -1)) * rng.choice(BIG)
    return rng.choice((0, 0, 0, 1, 1, 2, 3, 4, -1, -2, -3))


def _draw_named(rng: Random, variable: int) -> Row:
    """Return a row that an index operand chooses in."""
    step, offset = rng.choice((1, 1, 1, 1, 2, -1, 3)), rng.choice((0, 0, 0, 0, 1, -1, 2))
    return Row(rng.randint(1, 6), offset, ((variable, step),), rng.choice((1, 1, 1, 1, 2)))


def disguise(rng: Random, row: Row) -> Row:
    """Return another row of the same coordinates: divided by what it is multiplied with."""
    by = rng.choice((1, 1, 1, 1, 2, 3, 7, 2**31))
    terms = tuple((variable, by * coefficient) for variable, coefficient in row.terms)
    numbers = (by * row.offset, *(c for _, c in terms))
    if by * row.divisor >= 2**32 or any(not -(2**63) <= n < 2**63 for n in numbers):
        return row
    return Row(row.size, by * row.offset, terms, by * row.divisor)


def is_legal(node: Node) -> bool:
    """Whether an operator is legal: of those that are drawn, some have too long an encoding."""
    try:
        check_node(node, ORDERED)
    except ProgramError:
        return False
    return True
