"""Precisions: recipes whose models compute in a narrower type than their parameters have.

With `bf16`, the forward pass runs under `torch.autocast`, which rounds the operands of products to
bfloat16, and so what they return; what torch keeps in float32 (norms, softmax, losses) stays there.
Parameters and the optimizer's state are float32: they are the master weights of mixed precision.

With `int8`, linear layers have int8 weights, and activations that are rounded row by row; it is for
inference alone (`quantization.py`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import torch

from moot.offchain.errors import UsageError
from moot.offchain.frontend.quantization import quantize
from moot.offchain.frontend.recipe import Recipe, TrainingRecipe

PRECISIONS = ("fp32", "bf16", "int8")


def set_precision(recipe: Recipe, precision: str) -> Recipe:
    """Return a recipe whose model computes in a precision.

    Args:
        recipe: the recipe, in float32.
        precision: one of `PRECISIONS`.

    Raises:
        UsageError: there is no such precision, or no such one of what the recipe does.
    """
    if precision not in PRECISIONS:
        raise UsageError.unknown("precision", precision, PRECISIONS)
    if precision == "fp32":
        return recipe
    if precision == "int8":
        return _quantize(recipe)
    if isinstance(recipe, TrainingRecipe):
        return replace(recipe, loss=_narrow(recipe.loss))
    return replace(recipe, forward=_narrow(recipe.forward))


def _quantize(recipe: Recipe) -> Recipe:
    if isinstance(recipe, TrainingRecipe):
        raise UsageError("int8 has no gradients; choose bf16 or fp32 to train, or inference")
    return replace(recipe, model=quantize(recipe.model))


def _narrow(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            return function(*arguments)

    return call
