"""Resilient backpropagation, and averaged stochastic gradient descent."""

from dataclasses import dataclass

import torch
from torch import Tensor

from moot.offchain.frontend.optimizers.base import (
    Numbers,
    Tensors,
    Updated,
    as_tensor,
    regularize,
    zeros_like,
)
from moot.offchain.frontend.schedules import require_number


@dataclass(frozen=True, slots=True)
class Rprop:
    """Steps of a size of their own for each element, by the signs of gradients (Riedmiller, 1993).

    Attributes:
        learning_rate: the first step.
        shrinking: the factor of a step after a change of sign.
        growing: the factor of a step after an equal sign.
        least: the least step.
        largest: the largest step.
    """

    learning_rate: float = 1e-2
    shrinking: float = 0.5
    growing: float = 1.2
    least: float = 1e-6
    largest: float = 50.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "shrinking", "growing", "least", "largest"):
            require_number(f"the {name.replace('_', ' ')}", getattr(self, name), 0)

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the last gradient and the steps."""
        step = torch.full_like(parameter, self.learning_rate)
        return {"before": zeros_like(parameter), "step": step}

    def make_counters(self) -> Tensors:
        """Return nothing."""
        return {}

    def advance(self, counters: Tensors) -> Numbers:
        """Return nothing."""
        return dict(counters)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        del numbers
        agreement = gradient * moments["before"]
        factor = torch.where(agreement > 0, self.growing, 1.0)
        factor = torch.where(agreement < 0, self.shrinking, factor)
        step = (moments["step"] * factor).clamp(self.least, self.largest)
        kept = torch.where(agreement < 0, 0.0, gradient)
        return parameter - kept.sign() * step, {"before": kept, "step": step}


@dataclass(frozen=True, slots=True)
class ASGD:
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992), as torch has it.

    Attributes:
        learning_rate: the rate of the first steps.
        decay: each step scales the parameter by 1 minus this times the rate.
        power: the rate falls by this power of the number of steps.
        start: the step from which on the parameter is averaged.
        weight_decay: L2 regularization.
    """

    learning_rate: float = 1e-2
    decay: float = 1e-4
    power: float = 0.75
    start: float = 1e6
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "decay", "power", "start", "weight_decay"):
            require_number(f"the {name.replace('_', ' ')}", getattr(self, name), 0)

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the average."""
        return {"average": zeros_like(parameter)}

    def make_counters(self) -> Tensors:
        """Return the number of updates."""
        return {"count": torch.zeros(())}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate of this step, and the weight of the parameter in the average."""
        count = counters["count"]
        slowed = (count * (self.decay * self.learning_rate) + 1).pow(self.power)
        rate = as_tensor(self.learning_rate) / slowed
        weight = (count - self.start).clamp(min=1).reciprocal()
        return {"count": count + 1, "rate": rate, "weight": weight}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its average after this step."""
        gradient = regularize(gradient, parameter, self.weight_decay)
        rate = numbers["rate"]
        updated = parameter * (1 - rate * self.decay) - gradient * rate
        difference = updated - moments["average"]
        return updated, {"average": moments["average"] + difference * numbers["weight"]}
