"""Adam and AdamW."""

from dataclasses import dataclass

import torch
from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers.base import (
    Numbers,
    Tensors,
    Updated,
    as_tensor,
    decay,
    make_clock,
    read_rate,
    regularize,
    tick,
    zeros_like,
)
from moot.offchain.frontend.schedules import COUNTER, Rate, require_number, require_rate

_MOST_OFF = 2e-3
"""How far 1 - beta may be from what float32 makes of it, relative to it."""


def _require_exact(name: str, beta: Rate) -> None:
    """Refuse a beta so near to 1 that powers of it in float32 correct no bias (`UsageError`)."""
    if not isinstance(beta, (int, float)) or beta == 1:
        return
    rounded = float(torch.tensor(float(beta)))
    if abs((1 - rounded) / (1 - beta) - 1) > _MOST_OFF:
        raise UsageError(
            f"{name} is {beta}, and 1 - {name} is {1 - rounded:.4g} in float32, by which a program "
            f"corrects the bias; choose a {name} of at most 0.99999"
        )


@dataclass(frozen=True, slots=True)
class Moments:
    """The base of Adam and its variants: running means of the gradient and of its square."""

    learning_rate: Rate = 1e-3
    beta1: Rate = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_rate(self.beta1, "beta1", 0, 1)
        require_number("beta2", self.beta2, 0, 1)
        for name, beta in (("beta1", self.beta1), ("beta2", self.beta2)):
            _require_exact(name, beta)
        require_number("epsilon", self.epsilon, 0)
        require_number("the weight decay", self.weight_decay, 0)

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the running means of the gradient and of its square."""
        return {name: zeros_like(parameter) for name in ("first_moment", "second_moment")}

    def make_counters(self) -> Tensors:
        """Return the betas to the power of the number of steps, and a schedule's counter."""
        powers = {name: torch.ones(()) for name in ("beta1_power", "beta2_power")}
        return {**powers, **make_clock(self.learning_rate, self.beta1)}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate, the first beta and both bias corrections after one more step."""
        beta = read_rate(self.beta1, counters)
        first = self.raise_beta(beta, counters)
        second = counters["beta2_power"] * self.beta2
        numbers = tick(self.learning_rate, counters)
        return {
            **numbers,
            "beta1": beta,
            "beta1_power": first,
            "beta2_power": second,
            "corrected_rate": as_tensor(numbers["rate"]) / (1 - first),
            "scale": (1 - second).sqrt(),
        }

    @staticmethod
    def raise_beta(beta: Tensor | float, counters: Tensors) -> Tensor:
        """Return the first beta to the power of the number of steps, after one more."""
        if isinstance(beta, Tensor):
            return beta.pow((counters[COUNTER] + 1).float())
        return counters["beta1_power"] * beta

    def move_means(self, gradient: Tensor, moments: Tensors, numbers: Numbers) -> dict[str, Tensor]:
        """Return both running means after this step."""
        beta = numbers["beta1"]
        first = moments["first_moment"] * beta + gradient * (1 - beta)
        second = moments["second_moment"] * self.beta2 + gradient * gradient * (1 - self.beta2)
        return {"first_moment": first, "second_moment": second}


@dataclass(frozen=True, slots=True)
class Adam(Moments):
    """Adam (Kingma and Ba, arXiv 1412.6980), with L2 regularization.

    Attributes:
        amsgrad: whether a step divides by the largest second moment so far (Reddi et al., 2018).
    """

    amsgrad: bool = False

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the running means, and the largest second moment where that is used."""
        largest = {"largest_moment": zeros_like(parameter)} if self.amsgrad else {}
        return {**Moments.make_moments(self, parameter), **largest}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        gradient = regularize(gradient, parameter, self.weight_decay)
        return self._step(parameter, gradient, moments, numbers)

    def _step(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        updated = self.move_means(gradient, moments, numbers)
        second = updated["second_moment"]
        if self.amsgrad:
            second = torch.maximum(moments["largest_moment"], second)
            updated["largest_moment"] = second
        root = second.sqrt() / numbers["scale"] + self.epsilon
        step = updated["first_moment"] / root * numbers["corrected_rate"]
        return parameter - step, updated


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101)."""

    weight_decay: float = 1e-2

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        decayed = decay(parameter, numbers, self.weight_decay)
        return self._step(decayed, gradient, moments, numbers)
