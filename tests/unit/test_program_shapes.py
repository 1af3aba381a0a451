"""Rules that rearrange, select and index elements, gradients included, against torch in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from moot.offchain.programs.graph import Kind
from tests.program_helpers import capture_function, check_function, check_gradients
from tests.quick import every

X = torch.arange(24.0).reshape(2, 3, 4) - 7.5
ROW = torch.tensor([1.0, -2.0, 3.0, 0.5])
MATRIX = torch.arange(15.0).reshape(3, 5)
INDEX = torch.tensor([[2, 0, 1], [1, 1, 2]])
LINES = torch.tensor([[2, 0, 1, 0], [1, 1, 2, 2], [0, 0, 0, 1]])
FLAT = torch.tensor([1, 0, 1, 1])

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def _assign(x: torch.Tensor, place: tuple[Any, ...], value: Any) -> torch.Tensor:
    y = x.clone()
    y[place] = value
    return y


def _double_first_column(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y[:, 0].mul_(2)
    y.view(-1)[3] += 1
    return y


VIEWS: dict[str, Case] = {
    "view": (lambda x: x.view(6, 4), (X,)),
    "flatten": (lambda x: x.flatten(1), (X,)),
    "permute": (lambda x: x.permute(2, 0, 1), (X,)),
    "transpose": (lambda x: x.transpose(0, -1), (X,)),
    "t": (lambda x: x.t(), (MATRIX,)),
    "expand": (lambda x: x.expand(3, 2, 4), (ROW,)),
    "unsqueeze": (lambda x: x.unsqueeze(1), (X,)),
    "squeeze": (lambda x: x.unsqueeze(0).squeeze(), (X,)),
    "slice": (lambda x: x[:, 1:, ::2], (X,)),
    "slice from end": (lambda x: x[..., -3:-1], (X,)),
    "empty slice": (lambda x: x[:, 3:], (X,)),
    "select": (lambda x: x[:, -1], (X,)),
    "split": (lambda x: x.split(2, -1), (X,)),
    "uneven chunks": (lambda x: x.chunk(2, 1), (X,)),
    "unbind": (lambda x: x.unbind(1), (X,)),
    "flip": (lambda x: x.flip(0, 2), (X,)),
    "flip of slice": (lambda x: x[:, 1:].flip(1), (X,)),
    "diagonal": (lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1)), (MATRIX,)),
    "unfold": (lambda x: x.unfold(1, 3, 2), (MATRIX,)),
    "chained": (lambda x: x.permute(1, 0, 2)[1:].transpose(1, 2)[:, ::3], (X,)),
    "scalar": (lambda x: x[0, 0, 0], (X,)),
}

MOVES: dict[str, Case] = {
    "reshape of transpose": (lambda x: x.transpose(1, 2).reshape(2, 12), (X,)),
    "reshape of slice": (lambda x: x[:, :, 1:3].reshape(-1), (X,)),
    "cat": (lambda x, y: torch.cat([x, x[:, :1], y.expand(2, 1, 4)], 1), (X, ROW)),
    "cat of nothing": (lambda x: torch.cat([x.new_zeros(0), x[0, 0]]), (X,)),
    "cat of ten": (lambda x: torch.cat([x[i % 2] * i for i in range(10)], 0), (X,)),
    "cat of types": (lambda x, i: torch.cat([x, i.int(), x]), (ROW, FLAT)),
    "stack": (lambda x: torch.stack([x, x + 1], -1), (ROW,)),
    "repeat": (lambda x: x.repeat(2, 1, 3), (MATRIX,)),
    "repeat interleave": (lambda x: x.repeat_interleave(2, 1), (MATRIX,)),
    "roll": (lambda x: x.roll((1, -2), (0, 1)), (MATRIX,)),
    "pad": (lambda x: functional.pad(x, (1, 2, 0, 1), value=2.5), (X,)),
    "negative pad": (lambda x: functional.pad(x, (-1, 2)), (X,)),
    "tril": (lambda x: (x.tril(), x.triu(1)), (MATRIX,)),
    "diag embed": (torch.diag_embed, (ROW,)),
    "slice assignment": (lambda x: _assign(x, (slice(None), slice(0, 3, 2)), 1.5), (X,)),
    "select assignment": (lambda x: _assign(x, (0, 1), -x[1, 1]), (X,)),
    "in-place view": (_double_first_column, (MATRIX,)),
    "one hot": (lambda i: functional.one_hot(i, 3), (FLAT,)),
    "eye": (lambda x: x + torch.eye(4), (ROW,)),
    "arange": (lambda x: x * torch.arange(4) + torch.arange(1, 9, 2), (ROW,)),
    "linspace": (lambda x: x * torch.linspace(0, 1, 4, dtype=x.dtype), (ROW,)),
    "meshgrid": (lambda i: torch.meshgrid(i, i + 1, indexing="ij"), (FLAT,)),
    "constants": (lambda x: x + torch.tensor([1, 2, 3, 4]) * torch.tensor(2), (ROW,)),
    "filled": (lambda x: (torch.zeros_like(x), torch.full((2, 2), 3), torch.ones(3)), (ROW,)),
    "pixel shuffle": (lambda x: functional.pixel_shuffle(x.reshape(1, 4, 3, 2), 2), (X,)),
}

INDEXING: dict[str, Case] = {
    "gather": (lambda x, i: x[0].gather(0, i), (X, INDEX)),
    "gather of part": (lambda x, i: x[0].t().gather(1, i), (X, INDEX)),
    "index select": (lambda x, i: x.index_select(1, i), (X, FLAT)),
    "index": (lambda x, i: x[:, i], (X, FLAT)),
    "negative index": (lambda x, i: x[:, i - 2], (X, FLAT)),
    "two indices": (lambda x, i: x[i, :, i + 1], (X, FLAT)),
    "adjacent indices": (lambda x, i: x[:, i, i + 1], (X, FLAT)),
    "index grid": (lambda x, i: x[i[:, None], i], (MATRIX, FLAT)),
    "embedding": (lambda w, i: functional.embedding(i, w), (MATRIX, INDEX)),
    "scatter": (lambda x, i: x[0, :, :3].scatter(0, i, x[1, :, :3]), (X, INDEX)),
    "scatter number": (lambda x, i: x[0, :, :3].scatter(0, i, 9.0), (X, INDEX)),
    "scatter add": (lambda x, i: x[0].scatter_add(0, i, x[1]), (X, INDEX)),
    "scatter max": (
        lambda x, i: x[0].scatter_reduce(0, i, x[1], "amax"),
        (X, torch.tensor([[2, 0, 1], [2, 1, 0]])),
    ),
    "index put": (
        lambda x, i, y: x.index_put((i,), y),
        (torch.zeros(2, 3), FLAT[:2], X[0, :2, :3]),
    ),
    "index accumulate": (
        lambda x, i, y: x.index_put((i, i), y, accumulate=True),
        (MATRIX, FLAT, ROW),
    ),
    "index middle": (
        lambda x, i, y: x.index_put((torch.tensor([0, 1, 1, 0])[:, None], i), y, accumulate=True),
        (X, torch.tensor([2, 0]), X[:, 0].repeat(2, 1)[:, None].expand(4, 2, 4)),
    ),
    "masked assignment": (lambda x: _assign(x, (x > 0,), 0.25), (X,)),
    "index add": (
        lambda x, i, y: x.index_add(0, i, y),
        (MATRIX, FLAT, X.reshape(-1)[:20].view(4, 5)),
    ),
    "index copy": (lambda x, y: x.index_copy(0, torch.tensor([2, 0]), y), (MATRIX, MATRIX[:2] + 9)),
    "cumsum": (lambda x: (x.cumsum(1), x.long().cumsum(0)), (MATRIX,)),
    "put": (
        lambda x, i, y: (x.put(i[0], y[:3]), x.put(i, y[:3].expand(2, 3), accumulate=True)),
        (MATRIX, torch.tensor([[3, 0, 14], [1, 1, 2]]), ROW),
    ),
    "take": (lambda x, i: x.take(i), (MATRIX, INDEX)),
    "index fill": (lambda x: x.index_fill(0, torch.tensor([2, 0]), 9.0), (MATRIX,)),
    "triangle": (
        lambda x: (x[tuple(torch.tril_indices(3, 5, 1))], x[tuple(torch.triu_indices(3, 3))]),
        (MATRIX,),
    ),
    "take along": (lambda x, i: torch.take_along_dim(x[0], i, 0), (X, LINES)),
}


@pytest.mark.parametrize("name", every(6, VIEWS))
def test_views_cost_nothing(name: str) -> None:
    """Rearrangements that strides express give torch's elements, and cost no operator."""
    function, inputs = VIEWS[name]
    check_function(function, *inputs)
    kinds = {node.kind for node in capture_function(function, *inputs).program.nodes}
    assert kinds <= {Kind.SOURCE, Kind.SINK}


@pytest.mark.parametrize("name", every(6, MOVES))
def test_moves(name: str) -> None:
    """Rearrangements that strides cannot express give torch's elements."""
    function, inputs = MOVES[name]
    check_function(function, *inputs)


@pytest.mark.parametrize("name", every(6, INDEXING))
def test_indexing(name: str) -> None:
    """Gathers and scatters are torch's."""
    function, inputs = INDEXING[name]
    check_function(function, *inputs)


GRADIENTS: dict[str, Case] = {
    "slice": (lambda x: x[:, 1:, ::2].square().sum(), (X,)),
    "select": (lambda x: x[:, -1].square().sum(), (X,)),
    "cat": (lambda x, y: torch.cat([x, y.expand(2, 1, 4)], 1).square().sum(), (X, ROW)),
    "stack": (lambda x: torch.stack([x, x * x], -1).square().sum(), (ROW,)),
    "split": (lambda x: (x.split(3, -1)[0] ** 2).sum(), (X,)),
    "expand": (lambda x: (x.expand(3, 2, 4) * x).sum(), (ROW,)),
    "reshape": (lambda x: (x.transpose(1, 2).reshape(2, 12) ** 2).sum(), (X,)),
    "pad": (lambda x: (functional.pad(x, (1, 2, 0, 1), value=2.5) ** 2).sum(), (X,)),
    "flip": (lambda x: (x.flip(-1) * x).sum(), (X,)),
    "unfold": (lambda x: (x.unfold(1, 3, 2) ** 2).sum(), (MATRIX,)),
    "embedding": (lambda w: (functional.embedding(INDEX, w) ** 2).sum(), (MATRIX,)),
    "padded embedding": (
        lambda w: (functional.embedding(INDEX, w, padding_idx=1) ** 2).sum(),
        (MATRIX,),
    ),
    "gather": (lambda x: (x[0].gather(0, INDEX) ** 2).sum(), (X,)),
    "index": (lambda x: (x[:, FLAT] ** 2).sum(), (X,)),
    "index select": (lambda x: (x.index_select(1, FLAT) ** 2).sum(), (X,)),
    "scatter add": (lambda x: (x[0].scatter_add(0, LINES, x[1]) ** 2).sum(), (X,)),
    "slice assignment": (lambda x: (_assign(x, (0,), x[1] * 2) ** 2).sum(), (X,)),
    "diagonal": (lambda x: (x.diagonal() ** 2).sum(), (MATRIX,)),
    "tril": (lambda x: (x.tril() ** 2).sum(), (MATRIX,)),
    "repeat": (lambda x: (x.repeat(2, 1, 3) ** 2).sum(), (MATRIX,)),
    "take": (lambda x: (x.take(INDEX) ** 2).sum(), (MATRIX,)),
    "roll": (lambda x: (x.roll(1, 0) * x).sum(), (MATRIX,)),
    "masked fill": (lambda x: (x.masked_fill(x > 3, 2.0) * x).sum(), (MATRIX,)),
    "one hot": (lambda x: (functional.one_hot(INDEX, 3).to(x.dtype) @ x).square().sum(), (MATRIX,)),
    "index fill": (lambda x: x.index_fill(0, FLAT[:2], 9.0).square().sum(), (MATRIX,)),
    "cumsum": (lambda x: (x.cumsum(1) ** 2).sum(), (MATRIX,)),
}


@pytest.mark.parametrize("name", every(6, GRADIENTS))
def test_gradients(name: str) -> None:
    """Gradients through views, moves, gathers and scatters are torch's."""
    function, inputs = GRADIENTS[name]
    check_gradients(function, *inputs)


def test_a_view_of_what_is_written_out_in_another_order() -> None:
    """A decomposition's result is viewed as torch's, which lies in memory column by column."""
    matrix = (torch.eye(3) + MATRIX[:, :3] / 20).expand(2, 3, 3).contiguous()

    def solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        solved = torch.linalg.solve_triangular(a.tril(), b, upper=False)
        return (solved.transpose(1, 2).reshape(2, 12).square() * torch.arange(12)).sum()

    check_gradients(solve, matrix, X)
