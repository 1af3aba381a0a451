"""The tolerance where errors take numbers out of range: it stays finite, and a fault is seen."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.capture.draft import make_draft, make_start
from moot.offchain.frontend.capture.noise import ContainedStep, NoisyStep, run_noisily
from moot.offchain.frontend.capture.rehearsal import SLACK
from moot.offchain.frontend.decompositions import alignments, table
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.subject import Subject
from tests.quick import only

STATES, STEPS, CLASSES = 6, 10, 20
LONG = 2 * STEPS
LARGE = (-1e9, -1e30)
"""What users write for the logarithm of a chance of 0."""


class Chain(nn.Module):
    """A hidden Markov model that moves on by a few states, by the logarithms of its chances."""

    def __init__(self, never: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.never, self.move = never, nn.Parameter(torch.randn(STATES, STATES))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithms of the chances to end in the last state."""
        ahead = torch.arange(STATES) - torch.arange(STATES)[:, None]
        move = self.move.masked_fill((ahead < 0) | (ahead > 3), self.never)
        alpha = torch.where(torch.arange(STATES) == 0, 0.0, self.never) + x[:, 0]
        for t in range(1, STEPS):
            alpha = torch.logsumexp(alpha[:, :, None] + move, 1) + x[:, t]
        return alpha[:, -1]


def make_chain(never: float) -> TrainingRecipe:
    """Return a recipe that trains a chain."""

    def batch(step: int) -> tuple[Tensor, ...]:
        return (torch.randn(3, STEPS, STATES, generator=torch.Generator().manual_seed(step)),)

    return TrainingRecipe(Chain(never), lambda model, x: -model(x).mean(), SGD(0.1), batch)


def make_alignment(steps: int) -> TrainingRecipe:
    """Return a recipe whose labels fit its steps in few ways, so that most chances are 0."""
    torch.manual_seed(0)

    def batch(step: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(step)
        labels = torch.stack([torch.randperm(CLASSES, generator=generator) for _ in range(2)])
        return torch.randn(steps, 2, 4, generator=generator), labels[:, : steps - 2] + 1

    def loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        lengths = torch.tensor([steps, steps - 1])
        return nn.functional.ctc_loss(model(x).log_softmax(-1), labels, lengths, lengths - 2)

    return TrainingRecipe(nn.Linear(4, CLASSES + 1), loss, SGD(0.1), batch)


def lean(value: Tensor) -> Tensor:
    """Return the same numbers, whose gradient is off by a thousandth."""
    return value + 1e-3 * (value - value.detach())


def sum_exponentials(x: Tensor, axes: list[int]) -> Tensor:
    """Return the logarithm of a sum of exponentials, with a wrong gradient."""
    largest = x.amax(axes, keepdim=True).detach()
    return lean(((x - largest).exp().sum(axes, keepdim=True).log() + largest).squeeze(axes))


def mutate(old: str, new: str) -> Callable[..., Any]:
    """Return the loss of alignments, with other code in one place."""
    source = inspect.getsource(alignments.ctc_loss)
    assert source.count(old) == 1
    names: dict[str, Any] = {**vars(alignments), "lean": lean}
    exec(source.replace(old, new), names)  # noqa: S102 - our own source
    mutant: Callable[..., Any] = names["ctc_loss"]
    return mutant


@pytest.mark.parametrize("never", only({-1e9}, LARGE))
def test_errors_take_no_number_out_of_range(never: float) -> None:
    """Errors on -1e9 make NaN of exponentials and their gradients; contained, they do not."""
    recipe = make_chain(never)
    draft = make_draft(start := make_start(Subject.of(recipe), recipe.batch(0)), ORDERED)
    inputs = [*start.state.values(), *start.batch]

    def run(kind: type[NoisyStep]) -> Tensor:
        runs = [
            run_noisily(draft.graph, draft.errors, {}, inputs, SLACK, seed, kind)
            for seed in range(4)
        ]
        return torch.stack([results[draft.results.index("gradient.move")] for results in runs])

    loss = recipe.loss(recipe.model, *start.batch)
    (exact,) = torch.autograd.grad(loss, [*recipe.model.parameters()])
    contained = run(ContainedStep)
    assert run(NoisyStep).isnan().any()
    assert torch.allclose(contained, exact.expand_as(contained), 1e-3, 1e-6)
    assert (contained != exact).any()


@pytest.mark.parametrize("never", only({-1e9}, LARGE))
def test_a_chain_of_impossible_states_is_captured(never: float) -> None:
    """A model whose states can't all be reached agrees with torch."""
    assert capture(make_chain(never)).is_rehearsed


@pytest.mark.parametrize("never", only({-1e9}, LARGE))
def test_a_wrong_gradient_of_a_chain_is_refused(
    never: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gradient that is off by a thousandth is seen, whatever errors make of -1e9."""
    compositions: Any = table.COMPOSITIONS
    monkeypatch.setitem(compositions, "aten.logsumexp.default", sum_exponentials)
    with pytest.raises(CaptureError, match=r"^gradient move: .* rounding does not explain"):
        capture(make_chain(never))


@pytest.mark.parametrize("steps", only({STEPS}, (STEPS, LONG)))
def test_a_tight_alignment_is_captured(steps: int) -> None:
    """Labels that fit their steps in few ways have torch's loss and gradients."""
    assert capture(make_alignment(steps)).is_rehearsed


MUTANTS = {
    "a move left out": (STEPS, "alpha, before[:, 1:-1], skipped]", "alpha, before[:, 1:-1]]"),
    "an end left out": (STEPS, " | (place == 2 * labels[:, None] - 1)", ""),
    "no end of time": (STEPS, "torch.where(t < steps[:, None], moved, alpha)", "moved"),
    "a gradient off": (LONG, "loss + (total", "lean(loss) + (total"),
}
"""Faults in the loss of alignments, and for how many steps each is tried."""


@pytest.mark.slow
@pytest.mark.parametrize("name", only({"an end left out"}, MUTANTS))
def test_a_wrong_alignment_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of alignments that lacks a way or a term is refused, also if only gradients show."""
    steps, old, new = MUTANTS[name]
    compositions: Any = table.COMPOSITIONS
    for overload in ("aten._ctc_loss.default", "aten._ctc_loss.Tensor"):
        monkeypatch.setitem(compositions, overload, mutate(old, new))
    with pytest.raises(CaptureError, match="rounding does not explain"):
        capture(make_alignment(steps))
