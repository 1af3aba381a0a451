"""Matching by reputation: who has kept its bonds is asked more often."""

import math
from dataclasses import dataclass

from moot.offchain.errors import UsageError


@dataclass(frozen=True, slots=True)
class ByReputation:
    """The rule that the chance is the reputation to the power of `sharpness`, or `floor`."""

    sharpness: float = 2.0
    floor: float = 0.05

    def __post_init__(self) -> None:
        if self.sharpness < 0 or not 0 < self.floor <= 1:
            raise UsageError("sharpness is 0 or more, and floor more than 0 and at most 1")

    def weigh(self, reputation: float, stake_gwei: int) -> float:
        """Return the chance of a provider."""
        del stake_gwei
        return max(self.floor, math.pow(reputation, self.sharpness))
