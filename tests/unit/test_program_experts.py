"""Experts of a mixture: rows in groups, each row multiplied by its group's matrix, and counted."""

import pytest
import torch

from tests.program_helpers import assert_near, check_function, run_function, run_gradients

INNER, COLUMNS = 3, 2
SIZES = (2, 0, 3)
"""The rows of each group; one has none."""

ENDS = torch.tensor(SIZES).cumsum(0).to(torch.int32)


def draw(*shape: int) -> torch.Tensor:
    """Return normal numbers that depend on the shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product by torch's own operator."""
    return torch.nn.functional.grouped_mm(a, b, offs=None if a.dim() == b.dim() == 3 else ENDS)


def define(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product by its definition: group after group."""
    if a.dim() == b.dim() == 3:
        return torch.stack([x @ y for x, y in zip(a, b, strict=True)])
    if a.dim() == 3:
        pieces = zip(a, b.split(SIZES, 1), strict=True)
        return torch.cat([x @ y for x, y in pieces], 1)
    if b.dim() == 3:
        return torch.cat([x @ y for x, y in zip(a.split(SIZES), b, strict=True)])
    return torch.stack([x @ y for x, y in zip(a.split(SIZES, 1), b.split(SIZES), strict=True)])


ROWS = sum(SIZES)
CASES = {
    "rows": ((ROWS, INNER), (len(SIZES), INNER, COLUMNS)),
    "columns": ((len(SIZES), COLUMNS, INNER), (INNER, ROWS)),
    "contracted": ((INNER, ROWS), (ROWS, COLUMNS)),
    "whole": ((len(SIZES), ROWS, INNER), (len(SIZES), INNER, COLUMNS)),
}


@pytest.mark.parametrize("case", CASES)
def test_groups_are_multiplied_by_their_matrices(case: str) -> None:
    """Whatever dimension is grouped, and with a group of nothing, the product is as defined."""
    a, b = (draw(*shape) for shape in CASES[case])
    assert_near(run_function(multiply, a, b), [define(a.double(), b.double())])


def test_gradients_of_groups() -> None:
    """Gradients reach the rows, and of the matrices those whose groups have rows."""
    a, b = (draw(*shape) for shape in CASES["rows"])
    leaves = [x.double().requires_grad_() for x in (a, b)]
    loss = define(*leaves).square().sum()
    expected = [loss, *torch.autograd.grad(loss, leaves)]
    assert_near(run_gradients(lambda x, y: multiply(x, y).square().sum(), a, b), expected)


@pytest.mark.parametrize(("low", "high"), [(0, 4), (-1, 1), (0, 0)])
def test_histograms_count(low: int, high: int) -> None:
    """Elements at the edges and out of range are counted as torch does, and without a range too."""
    x = torch.tensor([0.0, 4.0, 3.999, 1.0, -1.0, 1.0, 2.5, 9.0])
    check_function(lambda y: torch.histc(y, 4, low, high), x)
    check_function(lambda y: torch.histc(y[:1], 2, low, high), x)
