"""The training recipes whose steps are measured, and how stock torch trains the same model."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from offchain.programs.examples import build
from offchain.programs.optimizers import SGD, AdamW
from offchain.programs.recipe import TrainingRecipe
from offchain.programs.schedules import Rate

MODELS = ("gpt2", "llama", "resnet", "bert")

SHAPES: Mapping[str, str] = {
    "gpt2": "124M, 4 x 256 tokens",
    "llama": "110M, 4 x 256 tokens",
    "resnet": "50, 16 x 224 x 224",
    "bert": "base, 8 x 128 tokens",
}


def make_recipe(model: str, *, is_tiny: bool) -> TrainingRecipe:
    """Return the training recipe of one of `MODELS`; all but the residual network's use AdamW."""
    recipe = build(model, "tiny" if is_tiny else "full")
    assert isinstance(recipe, TrainingRecipe)
    return replace(recipe, optimizer=AdamW(3e-4)) if model == "bert" else recipe


def make_stock_step(
    recipe: TrainingRecipe, dtype: torch.dtype = torch.float32
) -> Callable[[int], float]:
    """Return a function of the step's number that trains a copy of the model, and gives the loss.

    The copy, and its batches, are of `dtype`. It computes attention as transformers does unless
    told otherwise, not written out.
    """
    model: Any = copy.deepcopy(recipe.model).to(dtype).train()
    if getattr(model, "_supports_sdpa", False):
        model.set_attn_implementation("sdpa")
    optimizer = _make_optimizer(recipe.optimizer, model)

    def step(number: int) -> float:
        optimizer.zero_grad()
        batch = [x.to(dtype) if x.is_floating_point() else x for x in recipe.batch(number)]
        loss = recipe.loss(model, *batch)
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not say
        optimizer.step()
        return float(loss.detach())

    return step


def _make_optimizer(ours: object, model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return torch's own optimizer with the same settings."""
    parameters = model.parameters()
    if isinstance(ours, SGD):
        rate, momentum = _get_constant(ours.learning_rate), ours.momentum
        return torch.optim.SGD(parameters, rate, momentum=momentum, weight_decay=ours.weight_decay)
    assert isinstance(ours, AdamW)
    rate, betas = _get_constant(ours.learning_rate), (ours.beta1, ours.beta2)
    return torch.optim.AdamW(parameters, rate, betas, ours.epsilon, ours.weight_decay)


def _get_constant(rate: Rate) -> float:
    assert isinstance(rate, float)
    return rate
