"""Audits at one rate, paid for by clients."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.mechanisms.base import Audit, check_rate


@dataclass(frozen=True, slots=True)
class ConstantAudits(Audit):
    """The rule that a job is audited with probability `rate`, for the check's cost and a margin."""

    rate: float = 0.1
    margin: float = 0.5

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if self.margin < -1:
            raise UsageError(f"a margin of {self.margin} lets watchers pay; choose -1 or more")

    def choose_rate(self, reputation: float) -> float:
        """Return the same rate for all."""
        del reputation
        return self.rate

    def choose_fee(self, work_gwei: int) -> int:
        """Return what the check costs, and the margin."""
        return round(work_gwei * (1.0 + self.margin))
