"""Lion."""

from dataclasses import dataclass

from torch import Tensor

from moot.offchain.frontend.optimizers.base import (
    Numbers,
    Scheduled,
    Tensors,
    Updated,
    decay,
    zeros_like,
)
from moot.offchain.frontend.schedules import Rate, require_number, require_rate


@dataclass(frozen=True, slots=True)
class Lion(Scheduled):
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
        return {"momentum": zeros_like(parameter)}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its momentum after this step."""
        before = moments["momentum"]
        direction = (before * self.beta1 + gradient * (1 - self.beta1)).sign()
        momentum = before * self.beta2 + gradient * (1 - self.beta2)
        decayed = decay(parameter, numbers, self.weight_decay)
        return decayed - direction * numbers["rate"], {"momentum": momentum}
