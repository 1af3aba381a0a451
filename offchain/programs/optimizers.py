"""Optimizers as pure functions of tensors, so that an update is part of the captured step.

They follow `torch.optim`, with one difference: Adam's bias corrections come from running products
of the betas in float32, so that a step needs no power of its own number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Updated = tuple[Tensor, tuple[Tensor, ...]]
"""A parameter and its moments."""

Counters = Mapping[str, Tensor]


class Optimizer(Protocol):
    """How one step's gradients change the parameters."""

    @property
    def moments(self) -> tuple[str, ...]:
        """Names of the tensors kept for each parameter, of its shape and initially 0."""

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the float32 numbers kept for all parameters together, initially 1."""

    def advance(self, counters: Counters) -> dict[str, Tensor]:
        """Return the counters of this step, given those of the one before."""

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Sequence[Tensor], counters: Counters
    ) -> Updated:
        """Return the parameter and its moments after this step."""


@dataclass(frozen=True, slots=True)
class SGD:
    """Stochastic gradient descent, with L2 regularization and (Nesterov) momentum."""

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    @property
    def moments(self) -> tuple[str, ...]:
        """The momentum, where there is one."""
        return ("momentum",) if self.momentum else ()

    @property
    def counters(self) -> tuple[str, ...]:
        """None."""
        return ()

    def advance(self, counters: Counters) -> dict[str, Tensor]:
        """Return the counters unchanged."""
        return dict(counters)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Sequence[Tensor], counters: Counters
    ) -> Updated:
        """Return the parameter and its momentum after this step."""
        del counters
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        if not moments:
            return parameter - gradient * self.learning_rate, ()
        momentum = moments[0] * self.momentum + gradient
        direction = gradient + momentum * self.momentum if self.nesterov else momentum
        return parameter - direction * self.learning_rate, (momentum,)


@dataclass(frozen=True, slots=True)
class Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980), with L2 regularization."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    @property
    def moments(self) -> tuple[str, ...]:
        """The running means of the gradient and of its square."""
        return ("first_moment", "second_moment")

    @property
    def counters(self) -> tuple[str, ...]:
        """The betas to the power of the number of steps."""
        return ("beta1_power", "beta2_power")

    def advance(self, counters: Counters) -> dict[str, Tensor]:
        """Return the powers of the betas after one more step."""
        return {
            "beta1_power": counters["beta1_power"] * self.beta1,
            "beta2_power": counters["beta2_power"] * self.beta2,
        }

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Sequence[Tensor], counters: Counters
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        return self._step(parameter, gradient, moments, counters)

    def _step(
        self, parameter: Tensor, gradient: Tensor, moments: Sequence[Tensor], counters: Counters
    ) -> Updated:
        first = moments[0] * self.beta1 + gradient * (1 - self.beta1)
        second = moments[1] * self.beta2 + gradient * gradient * (1 - self.beta2)
        rate = self.learning_rate / (1 - counters["beta1_power"])
        scale = (1 - counters["beta2_power"]).sqrt()
        return parameter - first / (second.sqrt() / scale + self.epsilon) * rate, (first, second)


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101)."""

    weight_decay: float = 1e-2

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Sequence[Tensor], counters: Counters
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        decayed = parameter * (1 - self.learning_rate * self.weight_decay)
        return self._step(decayed, gradient, moments, counters)
