"""The steps of the user's own optimizers, beside which a program's updates are rehearsed."""

from collections.abc import Callable, Mapping, Sequence

import torch

from offchain.frontend.optimizers.translation import read_moments
from offchain.frontend.recipe import TrainingRecipe
from offchain.frontend.updates import advance_counters, list_optimizers_of_torch, optimize

Tensors = Mapping[str, torch.Tensor]

Step = Callable[[TrainingRecipe, Tensors, Tensors], dict[str, torch.Tensor]]
"""(recipe, state, gradients by parameter) -> the tensors of the state that the updates change."""


def step_as_user(
    recipe: TrainingRecipe, state: Tensors, gradients: Tensors
) -> dict[str, torch.Tensor]:
    """Return the tensors of the state that the user's own updates change.

    Objects of torch step themselves, on the model's parameters, which then have their old content
    again; what they keep stays with them. An optimizer of ours has no other step than the program's.

    Args:
        recipe: the recipe.
        state: the state before the updates.
        gradients: the gradients, by the names of their parameters.
    """
    optimizers = list_optimizers_of_torch(recipe)
    if not optimizers:
        return optimize(recipe, state, gradients)
    limited = recipe.clip(gradients) if recipe.clip and gradients else gradients
    parameters = dict(recipe.model.named_parameters())
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    for name, parameter in parameters.items():
        parameter.grad = limited.get(name)
    for optimizer in optimizers:
        optimizer.step()
    new = {f"parameter.{n}": parameters[n].detach().clone() for n in gradients}
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(before[name])
    return new | _read_state(optimizers, parameters) | advance_counters(recipe, state)


def _read_state(
    optimizers: Sequence[torch.optim.Optimizer], parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """Return what optimizers keep of parameters, as the program names it."""
    return {
        f"optimizer.{name}.{moment}": tensor.detach().clone()
        for optimizer in optimizers
        for name, parameter in parameters.items()
        for moment, tensor in read_moments(optimizer, parameter).items()
    }
