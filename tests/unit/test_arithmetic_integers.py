"""Wrap-around integers against numpy's, and the definitions of division."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.arithmetic import integers

UNSIGNED: dict[int, Any] = {32: np.uint32, 64: np.uint64}
SIGNED: dict[int, Any] = {32: np.int32, 64: np.int64}


def patterns(width: int) -> st.SearchStrategy[int]:
    """Draw patterns of a width, the bounds of the signed range among them."""
    top = 1 << width - 1
    edges = st.sampled_from([0, 1, 2, 3, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1])
    return edges | st.integers(0, 2 * top - 1)


@st.composite
def operands(draw: st.DrawFn) -> tuple[int, int, int]:
    """A width and two patterns of it."""
    width = draw(st.sampled_from((32, 64)))
    return width, draw(patterns(width)), draw(patterns(width))


def by_numpy(width: int, function: Callable[..., Any], *values: int) -> int:
    """Return the bits of a numpy operation on signed arrays, which wrap around silently."""
    arrays = [np.array([x], dtype=UNSIGNED[width]).view(SIGNED[width]) for x in values]
    result = function(*arrays)
    return int(result.view(UNSIGNED[width])[0]) if result.dtype != bool else int(result[0])


OPERATIONS: list[tuple[Callable[[int, int, int], int], Callable[..., Any]]] = [
    (integers.add, operator.add),
    (integers.subtract, operator.sub),
    (integers.multiply, operator.mul),
    (integers.maximum, np.maximum),
    (integers.minimum, np.minimum),
    (integers.less, operator.lt),
    (integers.less_equal, operator.le),
]


@pytest.mark.parametrize(("ours", "theirs"), OPERATIONS)
@given(operands())
def test_binary_operations_are_those_of_the_processor(
    ours: Callable[[int, int, int], int],
    theirs: Callable[..., Any],
    drawn: tuple[int, int, int],
) -> None:
    """Sums, differences and products wrap around, and the order is that of signed numbers."""
    width, x, y = drawn
    assert ours(width, x, y) == by_numpy(width, theirs, x, y)


@given(operands())
def test_unary_operations_are_those_of_the_processor(drawn: tuple[int, int, int]) -> None:
    """Negation and absolute value wrap at the least integer; the complement flips every bit."""
    width, x, _ = drawn
    assert integers.negate(width, x) == by_numpy(width, operator.neg, x)
    assert integers.absolute(width, x) == by_numpy(width, np.abs, x)
    assert integers.complement(width, x) == by_numpy(width, operator.invert, x)


@given(operands())
def test_floor_division_and_remainder(drawn: tuple[int, int, int]) -> None:
    """The operand is divisor * quotient + remainder, this between 0 and the divisor; or 0 and 0."""
    width, x, y = drawn
    quotient, remainder = integers.floor_divide(width, x, y), integers.remainder(width, x, y)
    if y == 0:
        assert quotient == remainder == 0
        return
    assert x == integers.add(width, integers.multiply(width, y, quotient), remainder)
    signed_remainder, divisor = integers.signed(width, remainder), integers.signed(width, y)
    assert 0 <= signed_remainder < divisor or divisor < signed_remainder <= 0


@pytest.mark.parametrize("width", [32, 64])
def test_least_integer_by_minus_one_wraps(width: int) -> None:
    """The one quotient that does not fit is the least integer itself."""
    least, minus_one = 1 << width - 1, (1 << width) - 1
    assert integers.floor_divide(width, least, minus_one) == least
    assert integers.remainder(width, least, minus_one) == 0
