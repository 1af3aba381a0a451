"""Audits that cheats pay for: what would be burned of lost bonds goes to a fund."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.mechanisms.base import Audit, check_rate


@dataclass(frozen=True, slots=True)
class AuditsFromBonds(Audit):
    """The rule that jobs are audited at `rate`, and that the fund pays as long as it has money.

    When it has none the client pays, so that the rate does not depend on what cheats do.
    """

    rate: float = 0.1
    margin: float = 0.5
    is_paid_from_bonds = True

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
