"""The moves of the service's money: what whoever plays them again on the contract's model is told.

Amounts are in gwei, agents are numbers.
"""

from typing import Protocol


class Moves(Protocol):
    """Whoever is told what is moved."""

    def stake(self, provider: int, amount_gwei: int) -> None:
        """A provider has added to its standing bond."""

    def fund(self, client: int, provider: int, amount_gwei: int) -> None:
        """A client has added to its balance with a provider."""

    def redeem(self, client: int, provider: int, amount_gwei: int) -> None:
        """A provider has redeemed a voucher for so much more than the one before it."""

    def challenge(self, provider: int, challenger: int, bond_gwei: int, against_gwei: int) -> None:
        """A challenger's bond, and as much as there is of the standing bond, are in a match."""

    def settle(self, provider: int, challenger: int, fate: str) -> None:
        """A match is over: `lost` by the provider, `won` by it, or `void`."""

    def fault(self, provider: int, reporter: int) -> None:
        """A provider has lost its whole bond."""


class NoMoves:
    """Nobody: nothing is played again."""

    def stake(self, provider: int, amount_gwei: int) -> None:
        """Forget it."""

    def fund(self, client: int, provider: int, amount_gwei: int) -> None:
        """Forget it."""

    def redeem(self, client: int, provider: int, amount_gwei: int) -> None:
        """Forget it."""

    def challenge(self, provider: int, challenger: int, bond_gwei: int, against_gwei: int) -> None:
        """Forget it."""

    def settle(self, provider: int, challenger: int, fate: str) -> None:
        """Forget it."""

    def fault(self, provider: int, reporter: int) -> None:
        """Forget it."""
