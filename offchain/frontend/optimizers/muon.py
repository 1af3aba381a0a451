"""Muon: momentum whose matrices are made nearly orthogonal."""

from dataclasses import dataclass
from math import sqrt

from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers.base import (
    Numbers,
    Scheduled,
    Tensors,
    Updated,
    decay,
    zeros_like,
)
from moot.offchain.frontend.schedules import Rate, require_number, require_rate

ADJUSTMENTS = ("original", "match_rms_adamw")


@dataclass(frozen=True, slots=True)
class Muon(Scheduled):
    """Muon (Jordan et al., 2024) for matrices, as `torch.optim.Muon` defines it.

    The matrices of Newton and Schulz's iteration are bfloat16; each is computed in float32 and
    rounded once.

    Attributes:
        learning_rate: the size of a step, before the adjustment.
        weight_decay: decoupled weight decay.
        momentum: the weight of the past in the running mean of gradients.
        nesterov: whether a step looks ahead along the mean.
        coefficients: those of the iteration's polynomial.
        epsilon: the least norm that a matrix is divided by.
        iterations: how often the polynomial is applied.
        adjustment: how a matrix's shape scales its rate, one of torch's names.
    """

    learning_rate: Rate = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315)
    epsilon: float = 1e-7
    iterations: int = 5
    adjustment: str = "original"

    def __post_init__(self) -> None:
        require_rate(self.learning_rate)
        require_number("the weight decay", self.weight_decay, 0)
        require_number("the momentum", self.momentum, 0)
        if self.adjustment not in ADJUSTMENTS:
            raise UsageError(f"no adjustment {self.adjustment}; choose {' or '.join(ADJUSTMENTS)}")

    def make_moments(self, parameter: Tensor) -> Tensors:
        """Return the running mean of the gradient; `UsageError` if this is no matrix."""
        if parameter.ndim != 2:
            shape = tuple(parameter.shape)
            raise UsageError(f"Muon takes matrices, not shape {shape}; give it to another group")
        return {"momentum": zeros_like(parameter)}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Tensors, numbers: Numbers
    ) -> Updated:
        """Return the parameter and its momentum after this step."""
        mean = moments["momentum"] + (gradient - moments["momentum"]) * (1 - self.momentum)
        ahead = gradient + (mean - gradient) * self.momentum if self.nesterov else mean
        rows, columns = parameter.shape
        scale = sqrt(max(1.0, rows / columns))
        if self.adjustment == "match_rms_adamw":
            scale = 0.2 * sqrt(max(rows, columns))
        step = self._orthogonalize(ahead) * scale
        decayed = decay(parameter, numbers, self.weight_decay)
        return decayed - step * numbers["rate"], {"momentum": mean}

    def _orthogonalize(self, matrix: Tensor) -> Tensor:
        """Return a matrix whose singular values were moved towards 1."""
        a, b, c = self.coefficients
        is_tall = matrix.shape[0] > matrix.shape[1]
        x = _narrow(matrix.T if is_tall else matrix)
        norm = _narrow((x * x).sum().sqrt()).clamp(min=self.epsilon)
        x = _narrow(x / norm)
        for _ in range(self.iterations):
            gram = _narrow(x @ x.T)
            update = _narrow(gram * b + gram @ gram * c)
            x = _narrow(x * a + update @ x)
        return x.T if is_tall else x


def _narrow(x: Tensor) -> Tensor:
    """Return float32 numbers rounded to bfloat16."""
    return x.bfloat16().float()
