"""Every row of the corpus is captured and like eager torch, or refused by its recorded line."""

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from tests.corpus.judge import Judgement, judge
from tests.corpus.rows import ask, learn, ramp
from tests.corpus.table import NAMES, REFUSALS, ROWS, SUBJECTS

EVERY = 150
"""One row in so many is part of the fast suite."""

ALWAYS = ("complex numbers: complex sum", "indexing and arranging: index by a mask, as it is")
"""Rows of it besides: complex numbers have rounding errors, and what a mask selects has a line."""

PARAMETERS = [
    pytest.param(name, marks=[] if number % EVERY == 0 or name in ALWAYS else [pytest.mark.slow])
    for number, name in enumerate(ROWS)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PARAMETERS)
def test_row(name: str) -> None:
    """Loss, outputs, parameters and statistics of three steps are eager torch's, or one line."""
    expected = Judgement("refused", REFUSALS[name]) if name in REFUSALS else Judgement("captured")
    assert judge(ROWS[name]) == expected


def test_the_table_is_whole() -> None:
    """Names are distinct, every recorded refusal is of a row, and most rows are captured."""
    assert len(ROWS) == sum(len(rows) for rows in SUBJECTS.values()) >= 192
    assert set(REFUSALS) <= NAMES
    assert all("\n" not in line for line in REFUSALS.values())


class _Wrong(torch.autograd.Function):
    """A square whose gradient is another one where it is traced."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return x squared."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        """Return twice the gradient times x, and three times where elements are not known."""
        (x,) = ctx.saved_tensors
        return gradients[0] * x * (3 if isinstance(gradients[0], FakeTensor) else 2)


X = ramp(3, 4)


def test_a_wrong_gradient_is_seen() -> None:
    """A program whose gradient is not the one that eager torch has is judged wrong, if trusted."""
    judgement = judge(learn("another gradient where it is traced", _Wrong.apply, X), trust=True)
    assert judgement.outcome == "wrong"
    assert "parameter.input_0" in judgement.message


def test_an_exception_is_seen() -> None:
    """An exception that is none of ours is judged a traceback."""
    assert judge(ask("no method", lambda x: x.no_such_method(), X)).outcome == "traceback"
