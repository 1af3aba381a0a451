"""Optimizers as pure functions of tensors, so that an update is part of the captured step.

They follow `torch.optim`, with one difference: Adam's bias corrections come from running products
of the betas in float32, so that a step needs no power of its own number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from offchain.errors import UsageError
from offchain.programs.schedules import COUNTER, Rate, require_number, require_rate

Tensors = Mapping[str, Tensor]

Numbers = Mapping[str, Tensor | float]
"""What all updates of a step share: the counters, and what was computed from them."""

Updated = tuple[Tensor, Tensors]
"""A parameter and its moments."""


class Optimizer(Protocol):
    """How one step's gradients change the parameters."""

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


def _make_clock(rate: Rate) -> dict[str, Tensor]:
    """Return the counter that a schedule reads; a constant rate needs none."""
    return {COUNTER: torch.zeros((), dtype=torch.int64)} if callable(rate) else {}


def _tick(rate: Rate, counters: Tensors) -> dict[str, Tensor | float]:
    """Return the rate of this update, and the counter after it."""
    if not callable(rate):
        return {"rate": rate}
    return {"rate": rate(counters[COUNTER]), COUNTER: counters[COUNTER] + 1}


def _as_tensor(number: Tensor | float) -> Tensor:
    """Return a number as a tensor: a number divided by a tensor would be a product, in torch."""
    return number if isinstance(number, Tensor) else torch.full((), number)


def _decay(parameter: Tensor, numbers: Numbers, weight_decay: float) -> Tensor:
    """Return the parameter after decoupled weight decay."""
    return parameter * (1 - numbers["rate"] * weight_decay) if weight_decay else parameter


@dataclass(frozen=True, slots=True)
class SGD:
    """Stochastic gradient descent, with L2 regularization and (Nesterov) momentum."""

    learning_rate: Rate
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_number("the momentum", self.momentum, 0)
        require_number("the weight decay", self.weight_decay, 0)
        if self.nesterov and (not self.momentum or self.dampening):
            raise UsageError("Nesterov's method needs a momentum, and no dampening; set both so")

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the momentum, where there is one."""
        return {"momentum": torch.zeros_like(parameter)} if self.momentum else {}

    def make_counters(self) -> Tensors:
        """Return a schedule's counter, and whether a first step was made, which is not damped."""
        undamped = {"is_damped": torch.zeros(())} if self.momentum and self.dampening else {}
        return {**_make_clock(self.learning_rate), **undamped}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate and the weight of a gradient in the momentum."""
        numbers = _tick(self.learning_rate, counters)
        if "is_damped" in counters:
            numbers["weight"] = 1 - counters["is_damped"] * self.dampening
            numbers["is_damped"] = torch.ones(())
        return numbers

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its momentum after this step."""
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        if not self.momentum:
            return parameter - gradient * numbers["rate"], {}
        added = gradient * numbers["weight"] if "weight" in numbers else gradient
        momentum = moments["momentum"] * self.momentum + added
        direction = gradient + momentum * self.momentum if self.nesterov else momentum
        return parameter - direction * numbers["rate"], {"momentum": momentum}


@dataclass(frozen=True, slots=True)
class Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980), with L2 regularization."""

    learning_rate: Rate = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_number("beta1", self.beta1, 0, 1)
        require_number("beta2", self.beta2, 0, 1)
        require_number("epsilon", self.epsilon, 0)
        require_number("the weight decay", self.weight_decay, 0)

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the running means of the gradient and of its square."""
        return {name: torch.zeros_like(parameter) for name in ("first_moment", "second_moment")}

    def make_counters(self) -> Tensors:
        """Return the betas to the power of the number of steps, and a schedule's counter."""
        powers = {name: torch.ones(()) for name in ("beta1_power", "beta2_power")}
        return {**powers, **_make_clock(self.learning_rate)}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate and both bias corrections after one more step."""
        first = counters["beta1_power"] * self.beta1
        second = counters["beta2_power"] * self.beta2
        numbers = _tick(self.learning_rate, counters)
        return {
            **numbers,
            "beta1_power": first,
            "beta2_power": second,
            "corrected_rate": _as_tensor(numbers["rate"]) / (1 - first),
            "scale": (1 - second).sqrt(),
        }

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        return self._step(parameter, gradient, moments, numbers)

    def _step(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        first = moments["first_moment"] * self.beta1 + gradient * (1 - self.beta1)
        second = moments["second_moment"] * self.beta2 + gradient * gradient * (1 - self.beta2)
        root = second.sqrt() / numbers["scale"] + self.epsilon
        updated = parameter - first / root * numbers["corrected_rate"]
        return updated, {"first_moment": first, "second_moment": second}


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101)."""

    weight_decay: float = 1e-2

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        decayed = _decay(parameter, numbers, self.weight_decay)
        return self._step(decayed, gradient, moments, numbers)


@dataclass(frozen=True, slots=True)
class Lion:
    """Lion (Chen et al., arXiv 2302.06675, algorithm 2): steps by the sign of a running mean."""

    learning_rate: Rate = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_number("beta1", self.beta1, 0, 1)
        require_number("beta2", self.beta2, 0, 1)
        require_number("the weight decay", self.weight_decay, 0)

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the running mean of the gradient."""
        return {"momentum": torch.zeros_like(parameter)}

    def make_counters(self) -> Tensors:
        """Return a schedule's counter."""
        return _make_clock(self.learning_rate)

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate."""
        return _tick(self.learning_rate, counters)

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its momentum after this step."""
        before = moments["momentum"]
        direction = (before * self.beta1 + gradient * (1 - self.beta1)).sign()
        momentum = before * self.beta2 + gradient * (1 - self.beta2)
        decayed = _decay(parameter, numbers, self.weight_decay)
        return decayed - direction * numbers["rate"], {"momentum": momentum}


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
            return {"second_moment": torch.zeros_like(parameter)}
        return {
            name: torch.zeros_like(parameter.sum(dim, keepdim=True))
            for name, dim in _FACTORS.items()
        }

    def make_counters(self) -> Tensors:
        """Return the number of updates, and a schedule's counter."""
        return {"count": torch.zeros((), dtype=torch.int64), **_make_clock(self.learning_rate)}

    def advance(self, counters: Tensors) -> Numbers:
        """Return the rate, the relative step and the weight of a gradient in the running means."""
        numbers = _tick(self.learning_rate, counters)
        count = counters["count"] + 1
        weight = count.float().pow(-self.decay)
        step = torch.minimum(_as_tensor(numbers["rate"]), count.float().sqrt().reciprocal())
        return {**numbers, "count": count, "weight": weight, "step": step}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its moments after this step."""
        size = _root_mean_square(parameter).clamp(min=self.epsilon[1])
        decayed = _decay(parameter, numbers, self.weight_decay)
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
