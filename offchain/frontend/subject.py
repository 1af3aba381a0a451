"""The subject of a capture: a recipe, with the names of its model's tensors and its optimizers.

`Subject.of` walks through the model once, and whoever needs a name asks what came of it. A user's
code may put other tensors in the places of the model's: a step that writes
`self.count = self.count + 1` does, and a batch function might. Where that may have happened,
`look_again` says on purpose what is there by then; nothing else in a capture walks through them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers.base import Group
from moot.offchain.frontend.recipe import Recipe, TrainingRecipe
from moot.offchain.text import name_kind


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A recipe whose tensors have names.

    Attributes:
        recipe: the recipe.
        parameters: its model's parameters by their names there; one that is tied has the first.
        buffers: its model's buffers, likewise.
        apart: sets of parameters that have groups of their own, which are the first ones, and so
            their own counters: torch has gradients for all of a set in a step, or for none.

    Example:
        >>> import torch
        >>> from moot.offchain.frontend.recipe import InferenceRecipe
        >>> norm = torch.nn.BatchNorm1d(2)
        >>> recipe = InferenceRecipe(norm, lambda model, x: model(x), lambda _: (torch.ones(3, 2),))
        >>> [*Subject.of(recipe).tensors][:3]
        ['parameter.weight', 'parameter.bias', 'buffer.running_mean']
    """

    recipe: Recipe
    parameters: Mapping[str, torch.nn.Parameter]
    buffers: Mapping[str, torch.Tensor]
    apart: tuple[frozenset[str], ...] = ()

    @classmethod
    def of(cls, recipe: Recipe) -> "Subject":
        """Return the subject that a recipe is."""
        model = recipe.model
        return cls(recipe, dict(model.named_parameters()), dict(model.named_buffers()))

    def look_again(self) -> "Subject":
        """Return the subject with the tensors that its model has by now."""
        return replace(Subject.of(self.recipe), apart=self.apart)

    def is_like(self, other: "Subject") -> bool:
        """Return whether the tensors of another subject are the same objects by the same names."""
        mine, others = self.tensors, other.tensors
        return [*mine] == [*others] and all(mine[name] is others[name] for name in mine)

    @property
    def model(self) -> torch.nn.Module:
        """The recipe's model."""
        return self.recipe.model

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by the names of their slots, in the order of a state."""
        return _name_slots(self.parameters, self.buffers)

    @property
    def owners(self) -> dict[int, str]:
        """Names of parameters by their `id`."""
        return {id(parameter): name for name, parameter in self.parameters.items()}

    @property
    def training(self) -> TrainingRecipe:
        """The recipe, where it is known to train."""
        assert isinstance(self.recipe, TrainingRecipe)
        return self.recipe

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """The recipe's optimizers, in order, where they are objects of torch; [] if there are none.

        Raises:
            UsageError: the recipe's optimizer is neither torch's nor ours.
        """
        return _list_optimizers(self.recipe) if isinstance(self.recipe, TrainingRecipe) else []


def name_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return what a subject has as `tensors`, of a model that comes without a recipe."""
    return _name_slots(dict(model.named_parameters()), dict(model.named_buffers()))


def _name_slots(
    parameters: Mapping[str, torch.nn.Parameter], buffers: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    named = {f"parameter.{name}": tensor for name, tensor in parameters.items()}
    return named | {f"buffer.{name}": tensor for name, tensor in buffers.items()}


def _list_optimizers(recipe: TrainingRecipe) -> list[torch.optim.Optimizer]:
    """Return a recipe's optimizers where they are objects of torch, and [] where they are ours."""
    given: Any = recipe.optimizer
    is_several = isinstance(given, (list, tuple))
    parts = list(given) if is_several else [given]
    if parts and all(isinstance(part, torch.optim.Optimizer) for part in parts):
        return parts
    groups = [part.optimizer for part in parts if isinstance(part, Group)]
    is_grouped = is_several and 0 < len(groups) == len(parts)
    if all(map(_is_ours, groups if is_grouped else [given])):
        return []
    known = (torch.optim.Optimizer, Group)
    strangers = [it for it in (groups if is_grouped else parts) if not isinstance(it, known)]
    wrong = next((it for it in strangers if not _is_ours(it)), given)
    found = f"is {name_kind(given)}" if wrong is given else f"has {name_kind(wrong)} in it"
    raise UsageError(
        f"the optimizer {found}; give an object, such as torch.optim.SGD(model.parameters(), "
        "lr=0.1) or moot's AdamW(1e-3), a list of torch's objects, or a list of groups"
    )


def _is_ours(given: Any) -> bool:
    """Return whether an object has what an optimizer of ours has."""
    methods = ("make_moments", "make_counters", "advance", "update")
    has_all = all(callable(getattr(given, name, None)) for name in methods)
    return has_all and not isinstance(given, type)
