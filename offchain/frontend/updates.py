"""The end of a training step: clipping, and each parameter's update by its group's optimizer.

The optimizers' state is `optimizer.<parameter>.<moment>` and `optimizer.<counter>`, or
`optimizer.<counter>.<k>` for group k of several. Frozen parameters have none, and their sinks
give back the very tensors that came.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from offchain.errors import UsageError
from offchain.frontend.optimizers.base import (
    Group,
    Numbers,
    Optimizer,
    Tensors,
    Updated,
    everything,
    find_group,
)
from offchain.frontend.optimizers.observed import Observed, observe
from offchain.frontend.optimizers.timetables import Timetables, check_schedulers, tabulate
from offchain.frontend.optimizers.translation import (
    check_objects,
    is_recognised,
    mark_continued,
    translate,
)
from offchain.frontend.recipe import Recipe, TrainingRecipe
from offchain.text import name_kind

SCHEDULED_UPDATES = "optimizer.scheduled"
"""How many updates were made, where a scheduler drives optimizers that are traced as they are."""

Update = Callable[[Optimizer, torch.Tensor, torch.Tensor, Tensors, Numbers], Updated]


def check_optimizer(recipe: TrainingRecipe) -> None:
    """Refuse an optimizer (`UsageError`) whose steps a program can't have."""
    of_torch = list_optimizers_of_torch(recipe)
    for optimizer in of_torch:
        mark_continued(optimizer)
    schedulers = check_schedulers(recipe.scheduler, of_torch)
    check_objects(of_torch, recipe.model, is_scheduled=bool(schedulers))
    tabulate(schedulers, of_torch, anew=True)
    _get_groups(recipe)
    find_observed(recipe, anew=True)


def find_observed(recipe: Recipe, *, anew: bool = False) -> Observed | None:
    """Return what those of a recipe's optimizers keep that are traced as they are, if any are.

    Args:
        recipe: the recipe.
        anew: whether the optimizers may have changed since they were last asked for.
    """
    if not isinstance(recipe, TrainingRecipe):
        return None
    others = [it for it in list_optimizers_of_torch(recipe) if not is_recognised(it)]
    return observe(others, recipe.model, anew=anew) if others else None


def make_optimizer_state(recipe: TrainingRecipe) -> dict[str, torch.Tensor]:
    """Return the moments of all learned parameters, then the counters, before the first step.

    Raises:
        UsageError: no group matches a parameter.
    """
    groups = _get_groups(recipe)
    state = {}
    for name, parameter in recipe.model.named_parameters():
        if not parameter.requires_grad:
            continue
        optimizer = groups[find_group(groups, name)].optimizer
        for moment, tensor in optimizer.make_moments(parameter.detach()).items():
            state[f"optimizer.{name}.{moment}"] = tensor.contiguous()
    for index, group in enumerate(groups):
        for counter, tensor in group.optimizer.make_counters().items():
            state[_name_counter(groups, index, counter)] = tensor
    observed = find_observed(recipe)
    kept = observed.start.items() if observed else ()
    counted = {SCHEDULED_UPDATES: torch.zeros((), dtype=torch.int64)}
    own = counted if observed and recipe.scheduler is not None else {}
    return state | {name: tensor.clone() for name, tensor in kept} | own


def apply(
    optimizer: Optimizer,
    parameter: torch.Tensor,
    gradient: torch.Tensor,
    moments: Tensors,
    numbers: Numbers,
) -> Updated:
    """Return a parameter and its moments after an update."""
    return optimizer.update(parameter, gradient, moments, numbers)


def optimize(
    recipe: TrainingRecipe, state: Tensors, gradients: Tensors, update: Update = apply
) -> dict[str, torch.Tensor]:
    """Return the tensors of the state that a step's updates by our optimizers change.

    Args:
        recipe: the recipe.
        state: the state before the updates.
        gradients: the gradients as the optimizers see them, by the names of their parameters.
        update: what `apply` does.
    """
    groups = _get_groups(recipe)
    new: dict[str, torch.Tensor] = {}
    numbers = [_advance(groups, index, state, new) for index in range(len(groups))]
    kept = _find_moments(state, counters=new)
    for name, gradient in gradients.items():
        index = find_group(groups, name)
        optimizer, parameter = groups[index].optimizer, state[f"parameter.{name}"]
        parameter, moments = update(
            optimizer, parameter, gradient, kept.get(name, {}), numbers[index]
        )
        new[f"parameter.{name}"] = parameter
        new.update({f"optimizer.{name}.{moment}": tensor for moment, tensor in moments.items()})
    return new


def limit(recipe: TrainingRecipe, gradients: Tensors) -> Tensors:
    """Return gradients as the optimizers see them: clipped, if the recipe says so.

    Raises:
        UsageError: the clip returns no gradients by name.
    """
    if not recipe.clip or not gradients:
        return gradients
    clipped: Any = recipe.clip(gradients)
    if not isinstance(clipped, Mapping) or clipped.keys() != gradients.keys():
        raise UsageError(
            f"the clip returns {name_kind(clipped)}; return the gradients that it is given, by name"
        )
    return clipped


def advance_counters(recipe: TrainingRecipe, state: Tensors) -> dict[str, torch.Tensor]:
    """Return the counters of all groups after one more step, by their names in the state."""
    groups, new = _get_groups(recipe), dict[str, torch.Tensor]()
    for index in range(len(groups)):
        _advance(groups, index, state, new)
    return new


def _advance(
    groups: Sequence[Group], index: int, state: Tensors, new: dict[str, torch.Tensor]
) -> Numbers:
    """Return the numbers of a group's updates in this step; add its new counters to `new`."""
    optimizer = groups[index].optimizer
    names = {key: _name_counter(groups, index, key) for key in optimizer.make_counters()}
    numbers = optimizer.advance({key: state[name] for key, name in names.items()})
    new.update({name: torch.as_tensor(numbers[key]) for key, name in names.items()})
    return numbers


def _find_moments(state: Tensors, counters: Tensors) -> dict[str, dict[str, torch.Tensor]]:
    """Return each parameter's moments."""
    found: dict[str, dict[str, torch.Tensor]] = defaultdict(dict)
    for key, tensor in state.items():
        if key.startswith("optimizer.") and key not in counters:
            name, _, moment = key.removeprefix("optimizer.").rpartition(".")
            found[name][moment] = tensor
    return found


def list_optimizers_of_torch(recipe: TrainingRecipe) -> list[torch.optim.Optimizer]:
    """Return a recipe's optimizers, in order, where they are objects of torch; [] if they are ours.

    Raises:
        UsageError: the recipe's optimizer is neither.
    """
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


def _get_groups(recipe: TrainingRecipe) -> Sequence[Group]:
    if of_torch := list_optimizers_of_torch(recipe):
        recognised = [it for it in of_torch if is_recognised(it)]
        return translate(recognised, recipe.model, _get_timetables(recipe))
    ours: Any = recipe.optimizer
    return ours if isinstance(ours, Sequence) else (Group(everything, ours),)


def _get_timetables(recipe: TrainingRecipe) -> Timetables:
    of_torch = list_optimizers_of_torch(recipe)
    return tabulate(check_schedulers(recipe.scheduler, of_torch), of_torch)


def count_updates(recipe: Recipe) -> int | None:
    """Return how many updates a recipe's schedulers have rates for; None without schedulers."""
    if not isinstance(recipe, TrainingRecipe) or recipe.scheduler is None:
        return None
    return _get_timetables(recipe).updates


def read_schedule(
    recipe: TrainingRecipe, state: Tensors
) -> tuple[dict[int, list[dict[str, Any]]], dict[str, torch.Tensor]]:
    """Return the options that schedulers give to optimizers which are traced as they are.

    Returns:
        The options, by the `id` of an optimizer and by group, and the counter after this update.
    """
    if SCHEDULED_UPDATES not in state:
        return {}, {}
    updates = state[SCHEDULED_UPDATES]
    options = {
        key: [{name: _read_option(value, updates) for name, value in it.items()} for it in groups]
        for key, groups in _get_timetables(recipe).changes.items()
    }
    return options, {SCHEDULED_UPDATES: updates + 1}


def _read_option(value: Any, updates: torch.Tensor) -> Any:
    if isinstance(value, tuple):
        return tuple(_read_option(part, updates) for part in value)
    return value(updates) if callable(value) else value


def _name_counter(groups: Sequence[Group], index: int, counter: str) -> str:
    return f"optimizer.{counter}.{index}" if len(groups) > 1 else f"optimizer.{counter}"
