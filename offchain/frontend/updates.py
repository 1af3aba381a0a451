"""The end of a training step: clipping, and each parameter's update by its group's optimizer.

The optimizers' state is `optimizer.<parameter>.<moment>` and `optimizer.<counter>`, or
`optimizer.<counter>.<k>` for group k of several. Frozen parameters have none, and their sinks
give back the very tensors that came.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any

import torch

from moot.offchain.errors import UsageError
from moot.offchain.frontend.clipping import ClipNorm, ClipValue
from moot.offchain.frontend.optimizers.base import (
    Group,
    Numbers,
    Optimizer,
    Tensors,
    Updated,
    everything,
    find_group,
)
from moot.offchain.frontend.optimizers.observed import Observed, observe
from moot.offchain.frontend.optimizers.timetables import Timetables, check_schedulers, tabulate
from moot.offchain.frontend.optimizers.translation import (
    check_objects,
    is_recognised,
    mark_continued,
    translate,
)
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.schedules import COUNTER
from moot.offchain.frontend.subject import Subject
from moot.offchain.text import name_kind

SCHEDULED_UPDATES = "optimizer.scheduled"
"""How many updates were made, where a scheduler drives optimizers that are traced as they are."""

Update = Callable[[Optimizer, torch.Tensor, torch.Tensor, Tensors, Numbers], Updated]


def check_optimizer(subject: Subject) -> None:
    """Refuse an optimizer (`UsageError`) whose steps a program can't have."""
    of_torch = subject.optimizers
    for optimizer in of_torch:
        mark_continued(optimizer)
    schedulers = check_schedulers(subject.training.scheduler, of_torch)
    check_objects(of_torch, subject, is_scheduled=bool(schedulers))
    tabulate(schedulers, of_torch, anew=True)
    _get_groups(subject)
    find_observed(subject, anew=True)


def find_observed(subject: Subject, *, anew: bool = False) -> Observed | None:
    """Return what those of a recipe's optimizers keep that are traced as they are, if any are.

    Args:
        subject: the subject.
        anew: whether the optimizers may have changed since they were last asked for.
    """
    others = [it for it in subject.optimizers if not is_recognised(it)]
    return observe(others, subject, anew=anew) if others else None


def make_optimizer_state(subject: Subject) -> dict[str, torch.Tensor]:
    """Return the moments of all learned parameters, then the counters, before the first step.

    Raises:
        UsageError: no group matches a parameter.
    """
    groups = _get_groups(subject)
    state = {}
    for name, parameter in subject.parameters.items():
        if not parameter.requires_grad:
            continue
        optimizer = groups[find_group(groups, name)].optimizer
        for moment, tensor in optimizer.make_moments(parameter.detach()).items():
            state[f"optimizer.{name}.{moment}"] = tensor.contiguous()
    for index, group in enumerate(groups):
        for counter, tensor in group.optimizer.make_counters().items():
            state[_name_counter(groups, index, counter)] = tensor
    observed = find_observed(subject)
    kept = observed.start.items() if observed else ()
    counted = {SCHEDULED_UPDATES: torch.zeros((), dtype=torch.int64)}
    own = counted if observed and subject.training.scheduler is not None else {}
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
    subject: Subject, state: Tensors, gradients: Tensors, update: Update = apply
) -> dict[str, torch.Tensor]:
    """Return the tensors of the state that a step's updates by our optimizers change.

    Args:
        subject: the subject.
        state: the state before the updates.
        gradients: the gradients as the optimizers see them, by the names of their parameters.
        update: what `apply` does.
    """
    groups = _get_groups(subject)
    numbers = [_count(groups, index, state) for index in range(len(groups))]
    new = _name_counters(subject, state, gradients, numbers)
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


def advance_counters(
    subject: Subject, state: Tensors, gradients: Tensors
) -> dict[str, torch.Tensor]:
    """Return the counters of all groups after one more step, by their names in the state.

    A group that stands apart counts the steps in which it has gradients, and all for a schedule.
    """
    groups = _get_groups(subject)
    numbers = [_count(groups, index, state) for index in range(len(groups))]
    return _name_counters(subject, state, gradients, numbers)


def _name_counters(
    subject: Subject, state: Tensors, gradients: Tensors, numbers: Sequence[Numbers]
) -> dict[str, torch.Tensor]:
    groups, new = _get_groups(subject), dict[str, torch.Tensor]()
    present = {find_group(groups, name) for name in gradients}
    for index, group in enumerate(groups):
        is_idle = index < len(subject.apart) and index not in present
        for key in group.optimizer.make_counters():
            name = _name_counter(groups, index, key)
            is_kept = is_idle and key != COUNTER
            new[name] = state[name] if is_kept else torch.as_tensor(numbers[index][key])
    return new


def _count(groups: Sequence[Group], index: int, state: Tensors) -> Numbers:
    """Return the numbers of a group's updates in this step, its new counters among them."""
    optimizer = groups[index].optimizer
    counters = {key: state[_name_counter(groups, index, key)] for key in optimizer.make_counters()}
    return optimizer.advance(counters)


def find_apart(
    subject: Subject, conditions: Mapping[str, torch.Tensor]
) -> tuple[frozenset[str], ...]:
    """Return sets of parameters that need counters of their own, as they share a condition.

    Args:
        subject: the subject.
        conditions: when torch has a gradient, for the parameters that do not always have one.

    Raises:
        UsageError: an optimizer has updates for which that is not known.
    """
    groups = _get_groups(subject)
    sets: dict[tuple[int, int], set[str]] = defaultdict(set)
    if not isinstance(subject.training.clip, (ClipNorm, ClipValue, NoneType)):
        raise UsageError(
            f"the clip sees all gradients, and torch has none for {min(conditions)} in steps that "
            "leave its branch out; leave the branch out, or choose ClipNorm or ClipValue"
        )
    for name, condition in conditions.items():
        optimizer = groups[find_group(groups, name)].optimizer
        if find_observed(subject) is not None or callable(getattr(optimizer, "beta1", None)):
            raise UsageError(
                f"parameter {name}: it has a gradient in steps only that come to its branch, and "
                "the optimizer counts its own steps; leave the branch out, or choose Adam or SGD"
            )
        if optimizer.make_counters().keys() - {COUNTER}:
            sets[id(condition), id(optimizer)].add(name)
    return tuple(frozenset(names) for names in sets.values())


def choose(
    subject: Subject,
    state: Tensors,
    new: Tensors,
    conditions: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """Return the tensors that a step changes, where torch has a gradient, and else the old ones.

    Args:
        subject: the subject.
        state: the state before the updates.
        new: the tensors of it that updates change.
        conditions: as `find_apart` takes them.
    """
    owners = {f"parameter.{name}": name for name in conditions}
    for key in new:
        owner = key.removeprefix("optimizer.").rpartition(".")[0]
        if key.startswith("optimizer.") and owner in conditions:
            owners[key] = owner
    groups = _get_groups(subject)
    for index, names in enumerate(subject.apart):
        counters = groups[index].optimizer.make_counters().keys() - {COUNTER}
        for counter in sorted(counters):
            owners[_name_counter(groups, index, counter)] = min(names)
    return dict(new) | {
        key: torch.where(conditions[owner], new[key], state[key]) for key, owner in owners.items()
    }


def _find_moments(state: Tensors, counters: Tensors) -> dict[str, dict[str, torch.Tensor]]:
    """Return each parameter's moments."""
    found: dict[str, dict[str, torch.Tensor]] = defaultdict(dict)
    for key, tensor in state.items():
        if key.startswith("optimizer.") and key not in counters:
            name, _, moment = key.removeprefix("optimizer.").rpartition(".")
            found[name][moment] = tensor
    return found


def _get_groups(subject: Subject) -> Sequence[Group]:
    """Return a recipe's groups; parameters that share a condition have one of their own."""
    groups = _get_given_groups(subject)
    apart = [
        Group(names.__contains__, groups[find_group(groups, min(names))].optimizer)
        for names in subject.apart
    ]
    return [*apart, *groups]


def _get_given_groups(subject: Subject) -> Sequence[Group]:
    if of_torch := subject.optimizers:
        recognised = [it for it in of_torch if is_recognised(it)]
        return translate(recognised, subject, _get_timetables(subject))
    ours: Any = subject.training.optimizer
    return ours if isinstance(ours, Sequence) else (Group(everything, ours),)


def _get_timetables(subject: Subject) -> Timetables:
    of_torch = subject.optimizers
    return tabulate(check_schedulers(subject.training.scheduler, of_torch), of_torch)


def count_updates(subject: Subject) -> int | None:
    """Return how many updates a recipe's schedulers have rates for; None without schedulers."""
    recipe = subject.recipe
    if not isinstance(recipe, TrainingRecipe) or recipe.scheduler is None:
        return None
    return _get_timetables(subject).updates


def read_schedule(
    subject: Subject, state: Tensors
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
        for key, groups in _get_timetables(subject).changes.items()
    }
    return options, {SCHEDULED_UPDATES: updates + 1}


def _read_option(value: Any, updates: torch.Tensor) -> Any:
    if isinstance(value, tuple):
        return tuple(_read_option(part, updates) for part in value)
    return value(updates) if callable(value) else value


def _name_counter(groups: Sequence[Group], index: int, counter: str) -> str:
    return f"optimizer.{counter}.{index}" if len(groups) > 1 else f"optimizer.{counter}"
