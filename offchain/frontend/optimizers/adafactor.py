"""Adafactor."""

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
    tick,
    zeros_like,
)
from moot.offchain.frontend.schedules import Rate, require_number, require_rate


@dataclass(frozen=True, slots=True)
class Adafactor:
    """Adafactor (Shazeer and Stern, arXiv 1804.04235), as `torch.optim.Adafactor` defines it.

    The second moment of a tensor of two or more dimensions is the product of a column and a row.

    Attributes:
        learning_rate: the most that a relative step is; it falls with the root of the count.
        decay: the running means forget 1 / count ** decay.
        epsilon: the least root of a second moment, and the least size of a parameter.
        clip: the root mean square above which an update is scaled down.
        weight_decay: decoupled weight decay.
    """

    learning_rate: Rate = 1e-2
    decay: float = 0.8
    epsilon: tuple[float, float] = (2.0**-23, 1e-3)
    clip: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_number("the decay", self.decay, 0)
        require_number("epsilon", min(self.epsilon), 0)
        require_number("the weight decay", self.weight_decay, 0)
        if not self.clip >= 1:
            raise UsageError(f"an update cannot be clipped to {self.clip}; choose at least 1")

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the running mean of the squared gradient, or those of its rows and columns."""
        if parameter.ndim < 2:
            return {"second_moment": zeros_like(parameter)}
        return {
            name: torch.zeros_like(parameter.sum(dim, keepdim=True))
            for name, dim in _FACTORS.items()
        }

    def make_counters(self) -> Tensors:
        """Return the number of updates, and a schedule's counter."""
        return {"count": torch.zeros((), dtype=torch.int64), **make_clock(self.learning_rate)}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate, the relative step and the weight of a gradient in the running means."""
        numbers = tick(self.learning_rate, counters)
        count = counters["count"] + 1
        weight = count.float().pow(-self.decay)
        step = torch.minimum(as_tensor(numbers["rate"]), count.float().sqrt().reciprocal())
        return {**numbers, "count": count, "weight": weight, "step": step}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        size = _root_mean_square(parameter).clamp(min=self.epsilon[1])
        decayed = decay(parameter, numbers, self.weight_decay)
        updated = self._move_means(gradient * gradient, moments, numbers["weight"])
        estimate = updated.get("second_moment")
        if estimate is None:
            mean = updated["rows"].mean(-2, keepdim=True).clamp(min=self.epsilon[0])
            estimate = updated["rows"] * updated["columns"] / mean
        direction = estimate.clamp(min=self.epsilon[0] ** 2).rsqrt() * gradient
        excess = (_root_mean_square(direction) / self.clip).clamp(min=1)
        return decayed - direction * (size * numbers["step"] / excess), updated

    @staticmethod
    def _move_means(square: Tensor, moments: Tensors, weight: Tensor | float) -> dict[str, Tensor]:
        updated = {}
        for name, before in moments.items():
            now = square.mean(_FACTORS[name], keepdim=True) if name in _FACTORS else square
            updated[name] = before + (now - before) * weight
        return updated


_FACTORS = {"rows": -1, "columns": -2}
"""The dimension over which each of Adafactor's factors is a mean."""


def _root_mean_square(x: Tensor) -> Tensor:
    return (x * x).mean().sqrt()
