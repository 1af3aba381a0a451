"""A mechanism of one's own: the bond that makes a lie not pay at a given rate of audits."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError


@dataclass(frozen=True, slots=True)
class BreakEvenBond:
    """The rule that a lie which saves `saved_eth` loses `margin` times that, on average.

    A job in `rate` is audited, and a liar is paid nothing then: what it loses is the bond.
    """

    saved_eth: float = 0.02
    rate: float = 0.1
    margin: float = 2.0

    def __post_init__(self) -> None:
        if self.saved_eth < 0 or not 0 < self.rate <= 1 or self.margin < 0:
            raise UsageError("saved_eth and margin are 0 or more, and rate is above 0 and up to 1")

    def size(self, value_gwei: int, reputation: float) -> int:
        """Return the bond in gwei, whatever the job is worth and whoever runs it."""
        del value_gwei, reputation
        return round(self.margin * self.saved_eth / self.rate * 10**9)
