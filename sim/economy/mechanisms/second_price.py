"""A sealed auction in which the lowest bidders win, and are paid the lowest bid that has lost."""

from collections.abc import Sequence
from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.mechanisms.base import Sold


@dataclass(frozen=True, slots=True)
class SecondPrice:
    """The rule that `bidders` more than are needed are asked, and that bids are sealed.

    To bid one's cost is the best that a bidder can do (Vickrey).
    """

    bidders: int = 3

    def __post_init__(self) -> None:
        if self.bidders < 1:
            raise UsageError(
                f"an auction with {self.bidders} more bidders than needed has no price"
            )

    def count_bidders(self, seats: int) -> int:
        """Ask more than are needed."""
        return seats + self.bidders

    def sell(self, bids: Sequence[int], seats: int, value_gwei: int) -> Sold | None:
        """Sell to the lowest bidders, unless their price is more than the answer is worth."""
        order = sorted(range(len(bids)), key=lambda index: (bids[index], index))
        price_gwei = bids[order[seats]]
        return None if price_gwei * seats > value_gwei else Sold(order[:seats], price_gwei)
