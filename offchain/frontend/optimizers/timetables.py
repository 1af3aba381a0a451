"""Timetables: what torch's schedulers make of the options of optimizers, update after update.

A scheduler computes in Python, in ways of its own; a program has a table of what came of it. The
scheduler's copy is stepped beforehand, beside optimizers that have the same options and nothing
else. What changes from one update to another becomes a table of float32 numbers, as torch's
operators would take them.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from moot.offchain.errors import UsageError
from moot.offchain.frontend.schedules import Timetable

MOST_UPDATES = 1 << 17
"""Updates that a scheduler's numbers are computed for."""

LEAST_UPDATES = 4
"""Those of a rehearsal, and the one behind them that a scheduler prepares."""

SCHEDULED = "initial_lr"
"""The option that a scheduler of torch leaves in a group."""

_MOST_LETTERS = 200

Options = Mapping[str, Any]


class Place(NamedTuple):
    """A number among the options of a group, or in a tuple of numbers."""

    group: int
    option: str
    part: int | None


@dataclass(frozen=True, slots=True)
class Timetables:
    """The options that schedulers change.

    Attributes:
        updates: for how many updates they are known.
        changes: by the `id` of an optimizer, for each of its groups: the options with timetables in
            the places of numbers that change.
    """

    updates: int
    changes: Mapping[int, Sequence[Options]]


NONE = Timetables(MOST_UPDATES, {})

_MADE: WeakKeyDictionary[LRScheduler, Timetables] = WeakKeyDictionary()


def tabulate(
    schedulers: Sequence[LRScheduler], optimizers: Sequence[Optimizer], *, anew: bool = False
) -> Timetables:
    """Return what schedulers make of the options of optimizers, from where they are.

    Args:
        schedulers: the schedulers, which are left as they are.
        optimizers: the optimizers that they drive.
        anew: whether both may have changed since they were last asked for.

    Raises:
        UsageError: a scheduler needs more than to be stepped.
    """
    if not schedulers:
        return NONE
    if anew or schedulers[0] not in _MADE:
        _MADE[schedulers[0]] = _tabulate(schedulers, optimizers)
    return _MADE[schedulers[0]]


def check_schedulers(given: Any, optimizers: Sequence[Optimizer]) -> list[LRScheduler]:
    """Return a recipe's schedulers as a list.

    Raises:
        UsageError: one is no scheduler of torch, has another optimizer, or depends on data.
    """
    schedulers = list(given) if isinstance(given, (list, tuple)) else [given]
    for scheduler in schedulers if given is not None else []:
        name = type(scheduler).__name__
        if isinstance(scheduler, ReduceLROnPlateau):
            raise UsageError(
                f"{name}: its rates depend on what is measured of the training; choose a scheduler "
                "that counts steps, such as CosineAnnealingLR"
            )
        if not isinstance(scheduler, LRScheduler):
            raise UsageError(
                f"the scheduler is a {name}; give an object of torch.optim.lr_scheduler"
            )
        known = {id(optimizer) for optimizer in optimizers}
        if any(id(optimizer) not in known for optimizer in _list_driven(scheduler)):
            raise UsageError(f"{name}: it drives an optimizer that is not the recipe's")
        for attribute, value in vars(scheduler).items():
            if isinstance(value, (torch.nn.Module, torch.nn.Parameter)):
                raise UsageError(
                    f"{name}: its attribute {attribute} is a {type(value).__name__}, and a program "
                    "has nothing of a scheduler but rates; change the model in the loss"
                )
    return schedulers if given is not None else []


def _list_driven(scheduler: Any) -> Iterator[Optimizer]:
    """Yield the optimizers whose options a scheduler changes."""
    if isinstance(getattr(scheduler, "optimizer", None), Optimizer):
        yield scheduler.optimizer
    for other in getattr(scheduler, "_schedulers", ()):
        yield from _list_driven(other)


def run_schedulers(schedulers: Sequence[LRScheduler]) -> None:
    """Have each scheduler make its step, without its advice on where in a loop to do so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scheduler in schedulers:
            scheduler.step()


def _tabulate(schedulers: Sequence[LRScheduler], optimizers: Sequence[Optimizer]) -> Timetables:
    stand_ins = [_stand_in(optimizer) for optimizer in optimizers]
    known: dict[int, Any] = dict(zip(map(id, optimizers), stand_ins, strict=True))
    copies = deepcopy(list(schedulers), known)
    groups = [options for optimizer in stand_ins for options in optimizer.param_groups]
    places = [
        place for index, options in enumerate(groups) for place in _list_places(index, options)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a scheduler is stepped alone
        rows = np.array(list(_list_rows(copies, groups, places)), np.float64)
    tables = {
        place: _make_table(column)
        for place, column in zip(places, rows.astype(np.float32).T, strict=True)
        if (column != column[0]).any()
    }
    numbers = iter(range(len(groups)))
    changes = {
        id(optimizer): [
            _replace(options, next(numbers), tables) for options in stand_in.param_groups
        ]
        for optimizer, stand_in in zip(optimizers, stand_ins, strict=True)
    }
    return Timetables(len(rows), changes)


def _stand_in(optimizer: Optimizer) -> Optimizer:
    """Return an optimizer that has the options of another, and neither parameters nor state.

    Its defaults are its own: torch adds to those of whatever is copied.
    """
    stand_in: Optimizer = object.__new__(type(optimizer))
    stand_in.__setstate__(optimizer.__getstate__() | {"defaults": {**optimizer.defaults}})
    stand_in.param_groups = [
        {
            name: value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in options.items()
            if name != "params"
        }
        for options in optimizer.param_groups
    ]
    return stand_in


def _list_places(group: int, options: Options) -> Iterator[Place]:
    for option, value in options.items():
        if isinstance(value, tuple):
            yield from (Place(group, option, k) for k, part in enumerate(value) if _is_number(part))
        elif _is_number(value):
            yield Place(group, option, None)


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, torch.Tensor) and value.numel() == 1
    return is_one or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _list_rows(
    schedulers: Sequence[LRScheduler], groups: Sequence[Options], places: Sequence[Place]
) -> Iterator[list[float]]:
    """Yield the numbers of each update, as long as the schedulers can be stepped.

    Raises:
        UsageError: one changes an option that is no number, or fails in its first steps.
    """
    fixed = [{k: v for k, v in options.items() if _is_fixed(v)} for options in groups]
    for update in range(MOST_UPDATES):
        yield [  # a tensor is read now: its scheduler fills it
            float(groups[group][option] if part is None else groups[group][option][part])
            for group, option, part in places
        ]
        _require_fixed(groups, fixed)
        for scheduler in schedulers:
            try:
                scheduler.step()
            except Exception as error:  # whatever a scheduler raises when it has come to its end
                if update + 1 < LEAST_UPDATES:
                    said = " ".join(str(error).split())[:_MOST_LETTERS]
                    raise UsageError(
                        f"{type(scheduler).__name__}: its step {update + 1} fails: "
                        f"{type(error).__name__}: {said}"
                    ) from error
                return


def _is_fixed(value: Any) -> bool:
    """Return whether an option is no number, which has no timetable: a switch, a name, None."""
    return isinstance(value, (bool, str, type(None)))


def _require_fixed(groups: Sequence[Options], fixed: Sequence[Options]) -> None:
    """Refuse schedulers that change switches of a group (`UsageError`)."""
    for options, others in zip(groups, fixed, strict=True):
        for name, value in others.items():
            if options.get(name) is not value:
                raise UsageError(
                    f"a scheduler changes the option {name} from {value} to {options.get(name)}, "
                    "which has no timetable; leave it as it is"
                )


def _make_table(column: NDArray[np.float32]) -> Timetable:
    """Return a column as a table that ends where the numbers do not change any more."""
    changing = np.flatnonzero(column != column[-1])
    return Timetable(torch.from_numpy(column[: changing[-1] + 2].copy()), len(column))


def _replace(options: Options, group: int, tables: Mapping[Place, Timetable]) -> Options:
    """Return the options of a group that change, with timetables in their places."""
    found: dict[str, Any] = {}
    for place, table in tables.items():
        if place.group != group:
            continue
        if place.part is None:
            found[place.option] = table
        else:
            parts = list(found[place.option] if place.option in found else options[place.option])
            parts[place.part] = table
            found[place.option] = tuple(parts)
    return found
