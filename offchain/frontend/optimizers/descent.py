"""Stochastic gradient descent."""

from dataclasses import dataclass

import torch
from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers.base import (
    Numbers,
    Tensors,
    Updated,
    make_clock,
    read_rate,
    regularize,
    tick,
    zeros_like,
)
from moot.offchain.frontend.schedules import Rate, require_number, require_rate


@dataclass(frozen=True, slots=True)
class SGD:
    """Stochastic gradient descent, with L2 regularization and (Nesterov) momentum."""

    learning_rate: Rate
    momentum: Rate = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_rate(self.momentum, "the momentum")
        require_number("the weight decay", self.weight_decay, 0)
        if self.nesterov and (not self.momentum or self.dampening):
            raise UsageError("Nesterov's method needs a momentum, and no dampening; set both so")

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the momentum, where there is one."""
        return {"momentum": zeros_like(parameter)} if self.momentum else {}

    def make_counters(self) -> Tensors:
        """Return a schedule's counter, and whether a first step was made, which is not damped."""
        undamped = {"is_damped": torch.zeros(())} if self.momentum and self.dampening else {}
        return {**make_clock(self.learning_rate, self.momentum), **undamped}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate, the momentum and the weight of a gradient in it."""
        numbers = tick(self.learning_rate, counters)
        numbers["momentum"] = read_rate(self.momentum, counters)
        if "is_damped" in counters:
            numbers["weight"] = 1 - counters["is_damped"] * self.dampening
            numbers["is_damped"] = torch.ones(())
        return numbers

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its momentum after this step."""
        gradient = regularize(gradient, parameter, self.weight_decay)
        if not self.momentum:
            return parameter - gradient * numbers["rate"], {}
        added = gradient * numbers["weight"] if "weight" in numbers else gradient
        momentum = moments["momentum"] * numbers["momentum"] + added
        direction = gradient + momentum * numbers["momentum"] if self.nesterov else momentum
        return parameter - direction * numbers["rate"], {"momentum": momentum}
