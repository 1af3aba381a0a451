"""The training recipes whose steps are measured, and how stock torch trains the same model."""

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from moot.offchain.frontend.examples import build
from moot.offchain.frontend.optimizers import SGD, Adam, AdamW
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.schedules import Rate

_IMAGE_RANK = 4

MODELS = ("gpt2", "llama", "resnet", "bert")

SHAPES: Mapping[str, str] = {
    "gpt2": "124M, 4 x 256 tokens",
    "llama": "110M, 4 x 256 tokens",
    "resnet": "50, 16 x 224 x 224",
    "bert": "base, 8 x 128 tokens",
}


def make_recipe(model: str, precision: str = "fp32", *, is_tiny: bool) -> TrainingRecipe:
    """Return the training recipe of one of `MODELS`; all but the residual network's use AdamW."""
    recipe = set_precision(build(model, "tiny" if is_tiny else "full"), precision)
    assert isinstance(recipe, TrainingRecipe)
    return replace(recipe, optimizer=AdamW(3e-4)) if model == "bert" else recipe


@dataclass(frozen=True, slots=True)
class Stock:
    """A way in which stock torch trains a model; by default, as it does unless told otherwise.

    Attributes:
        is_fused: one kernel updates a parameter.
        is_channels_last: images and filters have their channels last in memory.
        is_compiled: `torch.compile` makes the kernels of the model.
    """

    is_fused: bool = False
    is_channels_last: bool = False
    is_compiled: bool = False


BEST: Mapping[str, Stock] = {
    "fused": Stock(is_fused=True),
    "channels last": Stock(is_fused=True, is_channels_last=True),
    "compiled": Stock(is_fused=True, is_compiled=True),
    "compiled, channels last": Stock(is_fused=True, is_channels_last=True, is_compiled=True),
}
"""What stock torch is at its best on some model and machine."""


def list_best(recipe: TrainingRecipe) -> dict[str, Stock]:
    """Return the ways of `BEST` that make a difference to a model."""
    has_images = any(x.ndim == _IMAGE_RANK for x in recipe.batch(0))
    return {name: way for name, way in BEST.items() if has_images or not way.is_channels_last}


def make_stock_step(
    recipe: TrainingRecipe,
    dtype: torch.dtype = torch.float32,
    stock: Stock | None = None,
    device: str = "cpu",
) -> Callable[[int], float]:
    """Return a function of the step's number that trains a copy of the model, and gives the loss.

    The copy, and its batches, are of `dtype`, on a device. It computes attention as transformers
    does unless told otherwise, not written out.
    """
    stock = stock or Stock()
    model: Any = copy.deepcopy(recipe.model).to(dtype).train()
    if getattr(model, "_supports_sdpa", False):
        model.set_attn_implementation("sdpa")
    layout = torch.channels_last if stock.is_channels_last else torch.contiguous_format
    model = model.to(device, memory_format=layout)
    optimizer = _make_optimizer(recipe.optimizer, model, is_fused=stock.is_fused)
    if stock.is_compiled:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch is warned of itself
            model = torch.compile(model)

    def prepare(x: torch.Tensor) -> torch.Tensor:
        x = x.to(device)
        if not x.is_floating_point():
            return x
        return x.to(dtype, memory_format=layout) if x.ndim == _IMAGE_RANK else x.to(dtype)

    def step(number: int) -> float:
        optimizer.zero_grad()
        loss = recipe.loss(model, *map(prepare, recipe.batch(number)))
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _make_optimizer(
    ours: object, model: torch.nn.Module, *, is_fused: bool
) -> torch.optim.Optimizer:
    """Return torch's own optimizer with the same settings."""
    parameters, fused = model.parameters(), True if is_fused else None
    if isinstance(ours, SGD):
        rate, momentum = _get_constant(ours.learning_rate), _get_constant(ours.momentum)
        decay = ours.weight_decay
        return torch.optim.SGD(parameters, rate, momentum, weight_decay=decay, fused=fused)
    assert isinstance(ours, Adam | AdamW)
    kind = torch.optim.AdamW if isinstance(ours, AdamW) else torch.optim.Adam
    rate, betas = _get_constant(ours.learning_rate), (_get_constant(ours.beta1), ours.beta2)
    return kind(parameters, rate, betas, ours.epsilon, ours.weight_decay, fused=fused)


def _get_constant(rate: Rate) -> float:
    assert isinstance(rate, float)
    return rate
