"""The moves of the service's money: what whoever plays them again on the contract's model is told.

Each is told when the market's books have it. Amounts are in gwei, agents are numbers.
"""

from typing import TYPE_CHECKING

from moot.sim.economy.service.signed import Pair

if TYPE_CHECKING:
    from moot.sim.economy.service.affairs import Affair
    from moot.sim.economy.service.houses import House


class Moves:
    """Whoever is told what is moved; this one forgets it."""

    def stake(self, house: "House", amount_gwei: int) -> None:
        """A provider has added to its standing bond."""

    def leave(self, house: "House") -> None:
        """A provider lets its whole standing bond leave."""

    def fund(self, client: int, house: "House", amount_gwei: int, balance_gwei: int) -> None:
        """A client has added to its balance with a provider, which is so much now."""

    def sign(self, affair: "Affair") -> None:
        """A provider has signed a receipt."""

    def redeem(self, client: int, house: "House", amount_gwei: int, balance_gwei: int) -> None:
        """A provider has redeemed a voucher for so much more than the one before it."""

    def publish(self, house: "House", count: int) -> None:
        """A provider has published its next receipts; which are the next its house says still."""

    def challenge(self, affair: "Affair", challenger: int, bond_gwei: int, *, is_lie: bool) -> None:
        """A receipt is challenged, by the truth or a lie; a bond of either side is in the match."""

    def settle(self, affair: "Affair", challenger: int, bond_gwei: int, fate: str) -> None:
        """A match is over: `lost` by the provider, `won` by it, or `void`."""

    def fault(self, affair: "Affair", reporter: int, found: tuple[str, int], pair: Pair) -> None:
        """A provider has lost its whole bond by a proof; `found` is which, and what it has paid."""

    def finish(self) -> None:
        """The run is over."""
