"""The interface of optimizers, which are pure functions of tensors, and their shared parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.frontend.exchange import zeros
from moot.offchain.frontend.schedules import COUNTER, Rate

Tensors = Mapping[str, Tensor]

Numbers = Mapping[str, Tensor | float]
"""What all updates of a step share: the counters, and what was computed from them."""

Updated = tuple[Tensor, Tensors]
"""A parameter and its moments."""


class Optimizer(Protocol):
    """An optimizer: the rule by which one step's gradients change the parameters."""

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the tensors that are kept for a parameter, by name, before the first step."""

    def make_counters(self) -> Tensors:
        """Return the numbers that are kept for all parameters together, before the first step."""

    def advance(self, counters: Tensors) -> Numbers:
        """Return the numbers of this step, the new counters among them, given the old counters."""

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""


@dataclass(frozen=True, slots=True)
class Group:
    """The parameters whose names a predicate picks, and their optimizer.

    The first group of a recipe that matches a parameter has it.
    """

    matches: Callable[[str], bool]
    optimizer: Optimizer


def zeros_like(parameter: Tensor) -> Tensor:
    """Return zeros of a parameter's shape and type, whose memory is taken when it is written to."""
    return zeros(tuple(parameter.shape), parameter.dtype)


def everything(name: str) -> bool:
    """Match every parameter: the predicate of a last group."""
    del name
    return True


def find_group(groups: Sequence[Group], name: str) -> int:
    """Return the index of the group that has a parameter; `UsageError` when none matches it."""
    for index, group in enumerate(groups):
        if group.matches(name):
            return index
    raise UsageError(
        f"no group matches the parameter {name}; "
        "end the groups with Group(everything, ...), or freeze it"
    )


def make_clock(*rates: Rate) -> dict[str, Tensor]:
    """Return the counter that schedules read; constant rates need none."""
    return {COUNTER: torch.zeros((), dtype=torch.int64)} if any(map(callable, rates)) else {}


def tick(rate: Rate, counters: Tensors) -> dict[str, Tensor | float]:
    """Return the rate of this update, and the counter after it."""
    numbers = {"rate": read_rate(rate, counters)}
    return {**numbers, COUNTER: counters[COUNTER] + 1} if COUNTER in counters else numbers


def read_rate(rate: Rate, counters: Tensors) -> Tensor | float:
    """Return what a rate is at this update."""
    return rate(counters[COUNTER]) if callable(rate) else rate


def as_tensor(number: Tensor | float) -> Tensor:
    """Return a number as a tensor: a number divided by a tensor would be a product, in torch."""
    return number if isinstance(number, Tensor) else torch.full((), number)


def decay(parameter: Tensor, numbers: Numbers, weight_decay: float) -> Tensor:
    """Return the parameter after decoupled weight decay."""
    return parameter * (1 - numbers["rate"] * weight_decay) if weight_decay else parameter


def regularize(gradient: Tensor, parameter: Tensor, weight_decay: float) -> Tensor:
    """Return the gradient with that of L2 regularization."""
    return gradient + parameter * weight_decay if weight_decay else gradient


class Scheduled:
    """The base of optimizers that share only the rate, which is constant or follows a schedule.

    Attributes:
        learning_rate: the size of a step.
    """

    __slots__ = ()

    learning_rate: Rate

    def make_counters(self) -> Tensors:
        """Return a schedule's counter."""
        return make_clock(self.learning_rate)

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate."""
        return tick(self.learning_rate, counters)
