"""Variants of Adam: with Nesterov's momentum, rectified, and by the largest gradient."""

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from moot.offchain.frontend.optimizers.adam import Moments
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
from moot.offchain.frontend.schedules import Rate

SLOWING = 0.96
"""NAdam's momentum approaches its end as a power of this."""

LEAST_DEGREES = 5.0
"""RAdam adapts where the second moment is worth more than so many gradients."""

COTH_TERMS = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
"""1 / (e^x - 1) is 1 / x - 1 / 2 and the sum of these times x, x^3, x^5, ..."""


@dataclass(frozen=True, slots=True)
class NAdam(Moments):
    """Adam with Nesterov's momentum (Dozat, 2016), as `torch.optim.NAdam` defines it."""

    learning_rate: Rate = 2e-3
    momentum_decay: float = 4e-3
    decoupled: bool = False

    def make_counters(self) -> Tensors:
        """Return the number of updates, the product of momenta, and Adam's counters."""
        counters = Moments.make_counters(self)
        return {**counters, "count": torch.zeros(()), "momentum_product": torch.ones(())}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rates of the gradient and of its running mean after one more step."""
        numbers = Moments.advance(self, counters)
        count = counters["count"] + 1
        now, following = (self._find_momentum(count + later) * numbers["beta1"] for later in (0, 1))
        product = counters["momentum_product"] * now
        rate = as_tensor(numbers["rate"])
        return {
            **numbers,
            "count": count,
            "momentum_product": product,
            "gradient_rate": rate * (1 - now) / (1 - product),
            "mean_rate": rate * following / (1 - product * following),
        }

    def _find_momentum(self, count: Tensor) -> Tensor:
        slowed = torch.full((), SLOWING).pow(count * self.momentum_decay)
        return 1 - slowed * 0.5

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        if self.decoupled:
            parameter = decay(parameter, numbers, self.weight_decay)
        else:
            gradient = regularize(gradient, parameter, self.weight_decay)
        updated = self.move_means(gradient, moments, numbers)
        root = updated["second_moment"].sqrt() / numbers["scale"] + self.epsilon
        step = gradient / root * numbers["gradient_rate"]
        step = step + updated["first_moment"] / root * numbers["mean_rate"]
        return parameter - step, updated


@dataclass(frozen=True, slots=True)
class RAdam(Moments):
    """Rectified Adam (Liu et al., arXiv 1908.03265), as `torch.optim.RAdam` defines it."""

    decoupled: bool = False

    def make_counters(self) -> Tensors:
        """Return the number of updates, and Adam's counters."""
        return {**Moments.make_counters(self), "count": torch.zeros(())}

    def advance(self, counters: Tensors) -> Numbers:
        """Return whether the second moment is worth its use, and by how much it is rectified."""
        numbers = Moments.advance(self, counters)
        count = counters["count"] + 1
        most = 2 / (1 - self.beta2) - 1
        degrees = self._find_degrees(count)
        ratio = (degrees - 4) * (degrees - 2) * most / ((most - 4) * (most - 2) * degrees)
        return {
            **numbers,
            "count": count,
            "is_adaptive": degrees > LEAST_DEGREES,
            "rectified": ratio.clamp(min=0).sqrt() * numbers["scale"],
        }

    def _find_degrees(self, count: Tensor) -> Tensor:
        """Return 2 / (1 - b) - 1 - 2 t b^t / (1 - b^t), how many gradients a second moment has.

        For few steps the difference is that of its power series, of which nothing cancels.
        """
        rate = -log(self.beta2) if self.beta2 else 1e9
        most = 2 / (1 - self.beta2) - 1
        x = count * rate
        series, power = torch.zeros(()), x
        for term in COTH_TERMS:
            series, power = series + power * term, power * x * x
        near = (most - 2 / rate) + count - count * 2 * series
        far = most - count * 2 / x.expm1()
        return torch.where(x < 1, near, far)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        if self.decoupled:
            parameter = decay(parameter, numbers, self.weight_decay)
        else:
            gradient = regularize(gradient, parameter, self.weight_decay)
        updated = self.move_means(gradient, moments, numbers)
        root = updated["second_moment"].sqrt() + self.epsilon
        factor = torch.where(as_tensor(numbers["is_adaptive"]), numbers["rectified"] / root, 1)
        step = updated["first_moment"] * factor * numbers["corrected_rate"]
        return parameter - step, updated


@dataclass(frozen=True, slots=True)
class Adamax(Moments):
    """Adam by the largest gradient (Kingma and Ba, arXiv 1412.6980, section 7.1)."""

    learning_rate: Rate = 2e-3

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the running mean of the gradient, and its largest size so far."""
        return {name: zeros_like(parameter) for name in ("first_moment", "largest")}

    def make_counters(self) -> Tensors:
        """Return the first beta to the power of the number of steps, and a schedule's counter."""
        return {"beta1_power": torch.ones(()), **make_clock(self.learning_rate, self.beta1)}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the corrected rate after one more step."""
        beta = read_rate(self.beta1, counters)
        first = self.raise_beta(beta, counters)
        numbers = tick(self.learning_rate, counters)
        corrected = as_tensor(numbers["rate"]) / (1 - first)
        return {**numbers, "beta1": beta, "beta1_power": first, "corrected_rate": corrected}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        gradient = regularize(gradient, parameter, self.weight_decay)
        beta = numbers["beta1"]
        first = moments["first_moment"] * beta + gradient * (1 - beta)
        size = gradient.abs() + self.epsilon
        largest = torch.maximum(moments["largest"] * self.beta2, size)
        step = first / largest * numbers["corrected_rate"]
        return parameter - step, {"first_moment": first, "largest": largest}
