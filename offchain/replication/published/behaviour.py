"""Dishonest trainers: one that steers its roundings, and one that changes its weights."""

from dataclasses import dataclass

import torch
from torch import Tensor

from moot.offchain.replication.published.logs import UNLOGGED, UP

STEER, TAMPER = "steer", "tamper"


@dataclass(frozen=True, slots=True)
class Dishonesty:
    """How a trainer cheats.

    Attributes:
        kind: `STEER`: it rounds up whatever it may log; `TAMPER`: it changes a weight that it has
            computed, and says nothing.
        step: in which step; None for all, of one that steers.
        elements: of how many elements of each tensor it changes the rounding at most; None for all.
    """

    kind: str
    step: int | None
    elements: int | None = None


class Steering:
    """A trainer that rounds up what lies in its logging region.

    Args:
        dishonesty: how it cheats.
        step: the step that it is at.
    """

    def __init__(self, dishonesty: Dishonesty, step: int) -> None:
        self._acts = dishonesty.kind == STEER and dishonesty.step in {step, None}
        self._elements = dishonesty.elements

    def choose(self, codes: Tensor) -> Tensor:
        """Return codes of which the logged ones go up."""
        if not self._acts:
            return codes
        flat = codes.reshape(-1).clone()
        chosen = torch.nonzero((flat != UNLOGGED) & (flat != UP))[: self._elements]
        flat[chosen] = UP
        return flat.reshape(codes.shape)


def tamper(dishonesty: Dishonesty, step: int, new: dict[str, Tensor]) -> None:
    """Change a weight of a step's, where the trainer does that."""
    if dishonesty.kind == TAMPER and dishonesty.step == step:
        name = next(name for name in new if name.startswith("parameter."))
        new[name] = new[name].clone()
        new[name].view(-1)[0] += 2.0**-10
