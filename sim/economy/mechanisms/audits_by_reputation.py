"""Audits that trust whoever has a name to lose."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.mechanisms.base import Audit, check_rate


@dataclass(frozen=True, slots=True)
class AuditsByReputation(Audit):
    """The rule that the rate falls from `rate` to `least` as reputation grows from 0 to 1."""

    rate: float = 0.3
    least: float = 0.02
    margin: float = 0.5

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if not 0 <= self.least <= self.rate:
            raise UsageError(f"the least rate is from 0 to {self.rate}, not {self.least}")

    def choose_rate(self, reputation: float) -> float:
        """Return the rate for a provider."""
        return self.least + (self.rate - self.least) * (1.0 - reputation)

    def choose_fee(self, work_gwei: int) -> int:
        """Return what the check costs, and the margin."""
        return round(work_gwei * (1.0 + self.margin))
