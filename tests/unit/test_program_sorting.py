"""Sorting and what follows from it: torch's order, ties and NaN included."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from moot.offchain.errors import CaptureError
from moot.offchain.frontend.lowering import sorting
from tests.program_helpers import capture_function, check_gradients, run_function
from tests.quick import share

NUMBERS = st.sampled_from([-np.inf, -2.0, -0.0, 0.0, 1.0, 1.5, np.inf, np.nan])
SHAPES = arrays.array_shapes(max_dims=3, max_side=5)
FLOATS = arrays.arrays(np.float32, SHAPES, elements=NUMBERS)
INTEGERS = arrays.arrays(np.int64, SHAPES, elements=st.integers(-3, 3))
TENSORS = (FLOATS | INTEGERS).map(torch.from_numpy)


def assert_same(found: list[np.ndarray[Any, Any]], expected: Any) -> None:
    """Assert equal elements, of which NaN equals NaN."""
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y.numpy(), strict=True)


@settings(max_examples=share(40), deadline=None)
@given(TENSORS, st.data())
def test_a_sort_is_torch_s_stable_one(x: torch.Tensor, data: st.DataObject) -> None:
    """Values and positions are those of a stable sort; -0 equals 0, NaN is above all."""
    dim = data.draw(st.integers(-x.ndim, x.ndim - 1))
    descending = data.draw(st.booleans())

    def function(x: torch.Tensor) -> Any:
        return x.sort(dim=dim, descending=descending, stable=True)

    assert_same(run_function(function, x), function(x))


@settings(max_examples=share(30), deadline=None)
@given(TENSORS, st.data())
def test_rounds_find_what_a_sort_finds(x: torch.Tensor, data: st.DataObject) -> None:
    """The first elements are the same by ranks and by rounds: those of a stable sort."""
    dim = data.draw(st.integers(-x.ndim, x.ndim - 1))
    k = data.draw(st.integers(0, x.shape[dim]))
    expected = [v.narrow(dim, 0, k) for v in x.sort(dim=dim, descending=True, stable=True)]
    for limit in (0, sorting.MAX_RANKED):
        with patch.object(sorting, "MAX_RANKED", limit):
            assert_same(run_function(lambda x: x.topk(k, dim), x), expected)


def test_the_smallest() -> None:
    """The smallest elements are the first of an ascending sort."""
    x = torch.tensor([3.0, -1, float("nan"), 2, -1])
    values, positions = run_function(lambda x: x.topk(3, largest=False), x)
    assert values.tolist() == [-1, -1, 2]
    assert positions.tolist() == [1, 4, 3]


def test_scalars() -> None:
    """A number is sorted already."""
    found = run_function(lambda x: (*x.sort(), *x.topk(1)), torch.tensor(3.0))
    assert [array.tolist() for array in found] == [3, 0, 3, 0]


def test_gradients() -> None:
    """Gradients of sorted and of selected elements go back to where those came from."""
    x = torch.tensor([[3.0, -1, 0.5, 2], [1.0, 7, -2, 0.25]])
    weights = torch.arange(1.0, 5.0)
    check_gradients(lambda x: (x.sort(1)[0].square() * weights).sum(), x)
    check_gradients(lambda x: (x.topk(2, 1)[0].square() * weights[:2]).sum(), x)
    check_gradients(lambda x: (x.msort().square() * weights).sum(), x)
    check_gradients(lambda x: (x.gather(1, x.argsort(1)).square() * weights).sum(), x)


@pytest.mark.parametrize(
    ("function", "size"),
    [
        (lambda x: x.sort()[0], sorting.MAX_SORTED + 1),
        (lambda x: x.topk(sorting.MAX_ROUNDS + 1)[0], sorting.MAX_RANKED + 1),
        (lambda x: x.topk(1, largest=False)[0], sorting.MAX_SORTED + 1),
    ],
)
def test_long_lines_are_refused(function: Any, size: int) -> None:
    """Lines whose sort would take too many operators are refused, and the limit is named."""
    with pytest.raises(CaptureError, match="at most"):
        capture_function(function, torch.zeros(size))
