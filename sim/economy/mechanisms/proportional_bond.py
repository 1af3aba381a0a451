"""A bond in proportion to what a job is worth, and smaller for who has a name to lose."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.config import GWEI


@dataclass(frozen=True, slots=True)
class ProportionalBond:
    """The rule that the bond is `multiple` times the value, less a `discount` for reputation.

    A provider with reputation r locks (1 - discount * r) of it, and `least_eth` at the least.
    """

    multiple: float = 2.0
    discount: float = 0.0
    least_eth: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.multiple <= 1000 or not 0 <= self.discount <= 1:
            raise UsageError("multiple is from 0 to 1,000, and discount from 0 to 1")
        if not 0 <= self.least_eth <= 1e6:
            raise UsageError(f"a bond of {self.least_eth} ETH is none; choose 0 to 1,000,000")

    def size(self, value_gwei: int, reputation: float) -> int:
        """Return the bond."""
        share = self.multiple * (1.0 - self.discount * reputation)
        return max(round(self.least_eth * GWEI), round(share * value_gwei))
