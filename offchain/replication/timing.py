"""The times of replicated steps, beside those of stock torch's own steps in two types.

All are taken in alternation in the processes that replicate, since other work on the machine slows
everything down alike.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Protocol

import torch

from offchain.commitments.tensors import Array
from offchain.programs.recipe import Recipe, TrainingRecipe
from offchain.replication.orders import Order
from offchain.replication.published.training import Run

_TYPES = {"seconds_binary64": torch.float64, "seconds_binary32": torch.float32}


class Reported(Protocol):
    """A step of two processes, with what they have reported of it."""

    @property
    def trainer(self) -> Mapping[str, Any]:
        """The trainer's report."""

    @property
    def auditor(self) -> Mapping[str, Any]:
        """The auditor's."""


class Ratios:
    """What replicated steps cost, in terms of the steps of stock torch.

    Attributes:
        seconds: mean seconds of "trainer" and "auditor", and of the same steps by stock torch,
            "trainer_binary64" and so on, if they were timed.
    """

    __slots__ = ()

    seconds: Mapping[str, float]

    @property
    def trainer_over_binary64(self) -> float | None:
        """The trainer's time over that of stock torch's steps in binary64, if they were timed."""
        return self._divide("trainer", "trainer_binary64")

    @property
    def auditor_over_binary64(self) -> float | None:
        """Likewise of the auditor."""
        return self._divide("auditor", "auditor_binary64")

    @property
    def over_binary32(self) -> float | None:
        """The trainer's time over that of stock torch's steps in binary32, if they were timed."""
        return self._divide("trainer", "trainer_binary32")

    def _divide(self, one: str, other: str) -> float | None:
        return self.seconds[one] / self.seconds[other] if other in self.seconds else None


def make_stock(recipe: Recipe, start: Mapping[str, Array], order: Order) -> dict[str, Run]:
    """Return stock torch's own training, in two types, to be timed; none of what does not train."""
    if not isinstance(recipe, TrainingRecipe):
        return {}
    state = {name: torch.from_numpy(array.copy()) for name, array in start.items()}
    copies = {name: replace(recipe, model=deepcopy(recipe.model)) for name in _TYPES}
    return {name: Run(copies[name], state, _TYPES[name], order.seed) for name in _TYPES}


def average_seconds(steps: Sequence[Reported]) -> dict[str, float]:
    """Return the mean seconds of everything that was timed; of several steps without the first."""
    later = steps[1:] or steps
    reports = {"trainer": [s.trainer for s in later], "auditor": [s.auditor for s in later]}
    return {
        name.replace("seconds", party, 1): sum(row[name] for row in rows) / len(rows)
        for party, rows in reports.items()
        for name in rows[0]
        if name.startswith("seconds")
    }
