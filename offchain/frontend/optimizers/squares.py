"""Optimizers that divide by the root of a sum or a running mean of squared gradients."""

from dataclasses import dataclass

import torch
from torch import Tensor

from moot.offchain.frontend.optimizers.base import (
    Numbers,
    Scheduled,
    Tensors,
    Updated,
    as_tensor,
    make_clock,
    regularize,
    tick,
    zeros_like,
)
from moot.offchain.frontend.schedules import Rate, require_number, require_rate


@dataclass(frozen=True, slots=True)
class RMSprop(Scheduled):
    """Steps by the gradient over the root of its mean square (Tieleman and Hinton, 2012).

    Attributes:
        learning_rate: the size of a step.
        smoothing: the weight of the past in the running means.
        epsilon: what is added to the root.
        weight_decay: L2 regularization.
        momentum: the weight of the past in a running sum of steps.
        centered: whether the square of the mean is taken off the mean square.
    """

    learning_rate: Rate = 1e-2
    smoothing: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_number("the smoothing", self.smoothing, 0)
        require_number("epsilon", self.epsilon, 0)
        require_number("the weight decay", self.weight_decay, 0)
        require_number("the momentum", self.momentum, 0)

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the mean square, and where they are used the mean and the sum of steps."""
        names = ["square"] + ["mean"] * self.centered + ["momentum"] * bool(self.momentum)
        return {name: zeros_like(parameter) for name in names}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        gradient = regularize(gradient, parameter, self.weight_decay)
        rest = 1 - self.smoothing
        updated = {"square": moments["square"] * self.smoothing + gradient * gradient * rest}
        variance = updated["square"]
        if self.centered:
            updated["mean"] = moments["mean"] + (gradient - moments["mean"]) * rest
            variance = variance - updated["mean"] * updated["mean"]
        step = gradient / (variance.sqrt() + self.epsilon)
        if self.momentum:
            step = updated["momentum"] = moments["momentum"] * self.momentum + step
        return parameter - step * numbers["rate"], updated


@dataclass(frozen=True, slots=True)
class Adagrad:
    """Steps by the gradient over the root of the sum of its squares (Duchi et al., 2011).

    Attributes:
        learning_rate: the size of the first steps.
        rate_decay: update t has the rate over 1 + (t - 1) times this.
        weight_decay: L2 regularization.
        initial: what the sums start from.
        epsilon: what is added to the root.
    """

    learning_rate: Rate = 1e-2
    rate_decay: float = 0.0
    weight_decay: float = 0.0
    initial: float = 0.0
    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        for name in ("rate_decay", "weight_decay", "initial", "epsilon"):
            require_number(f"the {name.replace('_', ' ')}", getattr(self, name), 0)

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the sum of squares."""
        return {"sum": torch.full_like(parameter, self.initial)}

    def make_counters(self) -> Tensors:
        """Return the number of updates if the rate falls, and a schedule's counter."""
        counted = {"count": torch.zeros(())} if self.rate_decay else {}
        return {**counted, **make_clock(self.learning_rate)}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate of this step."""
        numbers = tick(self.learning_rate, counters)
        if self.rate_decay:
            divisor = counters["count"] * self.rate_decay + 1
            numbers["rate"] = as_tensor(numbers["rate"]) / divisor
            numbers["count"] = counters["count"] + 1
        return numbers

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its sum of squares after this step."""
        gradient = regularize(gradient, parameter, self.weight_decay)
        total = moments["sum"] + gradient * gradient
        step = gradient / (total.sqrt() + self.epsilon)
        return parameter - step * numbers["rate"], {"sum": total}


@dataclass(frozen=True, slots=True)
class Adadelta(Scheduled):
    """Steps by the gradient times a ratio of mean squares (Zeiler, arXiv 1212.5701)."""

    learning_rate: Rate = 1.0
    smoothing: float = 0.9
    epsilon: float = 1e-6
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_number("the smoothing", self.smoothing, 0)
        require_number("epsilon", self.epsilon, 0)
        require_number("the weight decay", self.weight_decay, 0)

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the mean squares of gradients and of steps."""
        return {name: zeros_like(parameter) for name in ("square", "step_square")}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        gradient = regularize(gradient, parameter, self.weight_decay)
        rest = 1 - self.smoothing
        square = moments["square"] * self.smoothing + gradient * gradient * rest
        root = (square + self.epsilon).sqrt()
        step = (moments["step_square"] + self.epsilon).sqrt() / root * gradient
        steps = moments["step_square"] * self.smoothing + step * step * rest
        return parameter - step * numbers["rate"], {"square": square, "step_square": steps}
