"""Every program of practice is trained as by a user's loop, or refused by its recorded line."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim import SGD

from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.judge import Judgement
from tests.corpus.practice import PROGRAMS, count, judge_program
from tests.corpus.practice_batches import numbers
from tests.corpus.table import REFUSALS
from tests.quick import only

DRAWN = sorted(PROGRAMS, key=lambda name: sha256(name.encode()).digest())[:2]
"""Programs of the fast suite, drawn by their names."""

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "capture.md"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", only(DRAWN, PROGRAMS))
def test_program(name: str) -> None:
    """Parameters, buffers, and the loss or outputs of four steps are a user's, or one line."""
    expected = Judgement("refused", REFUSALS[name]) if name in REFUSALS else Judgement("captured")
    assert judge_program(PROGRAMS[name]) == expected


def test_the_programs_are_many_and_most_are_captured() -> None:
    """There are at least 150 programs, and at least 92 in 100 are captured."""
    refused = REFUSALS.keys() & PROGRAMS.keys()
    assert len(PROGRAMS) >= 150
    assert 1 - len(refused) / len(PROGRAMS) >= 0.92


def test_the_document_counts_the_programs() -> None:
    """docs/reference/capture.md has the table that `python -m tests.corpus --counts` prints."""
    assert count(REFUSALS) in DOCUMENT.read_text()


def _trained(loss: Callable[..., Tensor]) -> TrainingRecipe:
    model = nn.Linear(3, 2)
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), numbers((4, 3), (4, 2)))


class _Off(torch.autograd.Function):
    """A number whose gradient is another one where it is traced."""

    @staticmethod
    def forward(_ctx: object, x: Tensor) -> Tensor:
        """Return a copy."""
        return x.clone()

    @staticmethod
    def backward(_ctx: object, gradient: Tensor) -> Tensor:
        """Return the gradient, and a little more where elements are not known."""
        return gradient * (1.01 if isinstance(gradient, FakeTensor) else 1)


def test_an_update_that_is_off_is_seen() -> None:
    """Updates that are a hundredth too large are judged wrong, if the capture is trusted."""
    judgement = judge_program(
        lambda: _trained(lambda m, x, y: F.mse_loss(_Off.apply(m(x)), y)), trust=True
    )
    assert judgement.outcome == "wrong"
    assert "parameter.weight" in judgement.message
