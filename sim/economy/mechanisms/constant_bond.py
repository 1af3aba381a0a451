"""A bond that is the same for all jobs."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.config import GWEI


@dataclass(frozen=True, slots=True)
class ConstantBond:
    """The rule that every account locks `eth`."""

    eth: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.eth <= 1e6:
            raise UsageError(f"a bond of {self.eth} ETH is none; choose 0 to 1,000,000")

    def size(self, value_gwei: int, reputation: float) -> int:
        """Return the bond."""
        del value_gwei, reputation
        return round(self.eth * GWEI)
