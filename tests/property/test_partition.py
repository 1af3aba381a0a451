"""Which samples an access reads: what is foreseen covers what is read."""

from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType
from moot.offchain.parallel.partition import find_span
from moot.offchain.programs.graph import Operand, Origin, Row


@st.composite
def accesses(draw: st.DrawFn) -> tuple[tuple[Row, ...], list[range], int, int]:
    """Return an access, a part of its domain, and the samples and inner extent of its tensor."""
    extents = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    ranges = []
    for extent in extents:
        first = draw(st.integers(0, extent - 1))
        ranges.append(range(first, draw(st.integers(first + 1, extent))))
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    rows = tuple(
        Row(
            size,
            draw(st.integers(-3, 3)),
            tuple(
                (variable, draw(st.sampled_from([-2, -1, 1, 2, 3])))
                for variable in range(len(ranges))
                if draw(st.booleans())
            ),
            draw(st.sampled_from([1, 1, 2])),
        )
        for size in sizes
    )
    total = prod(sizes)
    period = draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    samples = draw(st.sampled_from([n for n in range(1, period + 1) if period % n == 0]))
    return rows, ranges, samples, period // samples


@given(accesses())
def test_every_sample_that_is_read_is_foreseen(
    access: tuple[tuple[Row, ...], list[range], int, int],
) -> None:
    """An access in range reads only samples of its span, whatever the part of the domain."""
    rows, ranges, samples, inner = access
    operand = Operand(Origin.BATCH, DType.FLOAT32, rows=rows)
    span = find_span(rows, ranges, samples, inner)
    for variables in product(*ranges):
        index = operand.index(variables)
        if index is not None:
            assert index // inner % samples in span
