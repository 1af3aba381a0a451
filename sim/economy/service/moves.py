"""The moves of the service's money: what whoever plays them again on the contract's model is told.

Amounts are in gwei, agents are numbers.
"""

from typing import TYPE_CHECKING

from moot.sim.economy.service.signed import Pair

if TYPE_CHECKING:
    from moot.sim.economy.service.affairs import Affair


class Moves:
    """Whoever is told what is moved; this one forgets it."""

    def stake(self, provider: int, amount_gwei: int) -> None:
        """A provider adds to its standing bond."""

    def fund(self, client: int, provider: int, amount_gwei: int) -> None:
        """A client adds to its balance with a provider."""

    def sign(self, affair: "Affair") -> None:
        """A provider signs a receipt."""

    def redeem(self, client: int, provider: int, amount_gwei: int) -> None:
        """A provider redeems a voucher for so much more than the one before it."""

    def publish(self, provider: int, first: int, count: int) -> None:
        """A provider publishes its next receipts, from a number on."""

    def challenge(self, affair: "Affair", challenger: int, bond_gwei: int, *, is_lie: bool) -> None:
        """A receipt is challenged, by the truth or a lie; a bond of either side is in the match."""

    def settle(self, affair: "Affair", challenger: int, bond_gwei: int, fate: str) -> None:
        """A match is over: `lost` by the provider, `won` by it, or `void`."""

    def fault(self, affair: "Affair", reporter: int, finding: str, pair: Pair) -> None:
        """A provider loses its whole bond, by a proof that is not moved yet."""

    def finish(self) -> None:
        """The run is over."""
