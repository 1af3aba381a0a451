"""A posted price: the client pays what is written, to whoever is content with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.config import GWEI
from moot.sim.economy.mechanisms.base import Sold


@dataclass(frozen=True, slots=True)
class Posted:
    """The rule that the price is `eth` for each provider, whatever they bid."""

    eth: float = 0.08

    def __post_init__(self) -> None:
        if not 0 <= self.eth <= 1e6:
            raise UsageError(f"a price of {self.eth} ETH is none; choose 0 to 1,000,000")

    def count_bidders(self, seats: int) -> int:
        """Ask as many as shall run the job."""
        return seats

    def sell(self, bids: Sequence[int], seats: int, value_gwei: int) -> Sold | None:
        """Sell to all, if the price is enough for each and not more than the answer is worth."""
        price_gwei = round(self.eth * GWEI)
        if max(bids) > price_gwei or price_gwei * seats > value_gwei:
            return None
        return Sold(range(seats), price_gwei)
