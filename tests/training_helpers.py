"""Helpers that compare training recipes, step by step, with torch and the readable executor."""

from collections.abc import Callable

import torch

from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.program_helpers import assert_close

Reference = Callable[[torch.nn.Module, int], float]
"""(model, step) -> loss: one step of training by stock torch, which changes the model."""


class Perceptron(torch.nn.Module):
    """Two dense layers with a norm between them."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, width)
        self.norm = torch.nn.LayerNorm(width)
        self.last = torch.nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return two numbers for each row."""
        result: torch.Tensor = self.last(self.norm(self.first(x)).tanh())
        return result


def make_model() -> Perceptron:
    """Return the model whose weights all tests begin with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Perceptron()


def make_batch(step: int) -> tuple[torch.Tensor, ...]:
    """Return four points and what to predict for them."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(4, 3, generator=generator)
    return x, torch.stack([x.sum(1), x[:, 0] * x[:, 1]], 1)


def square_loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a loss with large gradients."""
    result: torch.Tensor = (model(x) - y).square().sum()
    return result


def by_name(captured: Captured, state: list[Array]) -> dict[str, Array]:
    """Return the state's tensors by the names of their slots."""
    return {slot.name: array for slot, array in zip(captured.program.state, state, strict=True)}


def encode(state: list[Array]) -> list[bytes]:
    """Return the canonical bytes of tensors."""
    return [encode_elements(array).tobytes() for array in state]


def assert_trains_as(
    recipe: TrainingRecipe, reference: Reference, steps: int = 8, tolerance: float = 1e-4
) -> None:
    """Assert that a recipe's program trains as stock torch does, and as its definition says.

    The recipe's model is trained by the reference, after it was captured. Losses agree relatively
    to the tolerance, parameters also absolutely to a tenth of it. Two steps are also run by the
    readable executor, bit for bit.
    """
    captured = capture(recipe, trust=True)  # what follows compares more steps
    executor = Executor(captured.program)
    state = defined = captured.initial_state
    for step in range(steps):
        state = executor.run(state, captured.batch(step), step)
        if step < 2:
            defined = run_step(captured.program, defined, captured.batch(step), step)
            assert encode(state) == encode(defined)
        loss = reference(recipe.model, step)
        named = by_name(captured, state)
        assert_close(named["output.loss"], loss, relative=tolerance)
        for name, tensor in recipe.model.named_parameters():
            found = named[f"parameter.{name}"]
            assert_close(found, tensor.detach(), relative=tolerance, absolute=tolerance / 10)
