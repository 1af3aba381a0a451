"""Matching by stake: who has more money in the market is asked more often."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.config import GWEI


@dataclass(frozen=True, slots=True)
class StakeWeighted:
    """The rule that the chance is in proportion to the stake, up to `cap_eth`."""

    cap_eth: float = 100.0

    def __post_init__(self) -> None:
        if not self.cap_eth > 0:
            raise UsageError(
                f"a cap of {self.cap_eth} ETH lets nobody be asked; give a positive one"
            )

    def weigh(self, reputation: float, stake_gwei: int) -> float:
        """Return the stake as a share of the cap."""
        del reputation
        return min(1.0, stake_gwei / (self.cap_eth * GWEI))
