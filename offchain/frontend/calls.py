"""Calls of a recipe's function: what it is given of a batch, and what is taken of its result."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from moot.offchain.frontend.forms import list_leaves
from moot.offchain.frontend.recipe import Recipe, TrainingRecipe, get_function, list_arguments


def call(recipe: Recipe, batch: Sequence[torch.Tensor]) -> Any:
    """Return what a recipe's function makes of the tensors of one batch."""
    arguments = batch if recipe.form is None else list_arguments(recipe.form.fill(batch))
    return get_function(recipe)(recipe.model, *arguments)


def compute_loss(recipe: TrainingRecipe, batch: Sequence[torch.Tensor]) -> Any:
    """Return the loss of the tensors of one batch."""
    return get_loss(call(recipe, batch))


def get_loss(result: Any) -> Any:
    """Return the loss among what a recipe's function has returned."""
    if isinstance(result, torch.Tensor):
        return result
    if isinstance(result, Mapping):
        return result.get("loss")
    return getattr(result, "loss", result)


def list_outputs(result: Any) -> list[Any]:
    """Return what a recipe's function has returned, flat; what is None is left out."""
    return [leaf.value for leaf in list_leaves(result) if leaf.value is not None or not leaf.path]
