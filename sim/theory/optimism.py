"""The ladder of bonds in Optimism's fault dispute game (`FaultDisputeGame.getRequiredBond`).

A claim at depth d of the game costs a bond of 400,000 gas at 200 gwei, times g^d, where g makes the
bond at the greatest depth, 73, that of 300,000,000 gas. Claims at even depths are one side's, those
at odd depths the other's.
"""

from dataclasses import dataclass

from moot.offchain.errors import UsageError

BASE_GAS = 400_000
HIGH_GAS = 300_000_000
MAX_DEPTH = 73
PRICE_WEI = 200 * 10**9
"""The price of gas that the bonds assume."""
GROWTH = (HIGH_GAS / BASE_GAS) ** (1 / MAX_DEPTH)
"""How much more a claim costs than the one above it."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The bonds that a game locks if it is played to its greatest depth, all in wei.

    Attributes:
        first_wei: the bond at depth 0.
        last_wei: the bond at the greatest depth.
        even_wei: the sum of those at even depths, of the side that begins.
        odd_wei: the sum of those at odd depths.
    """

    first_wei: int
    last_wei: int
    even_wei: int
    odd_wei: int

    @property
    def total_wei(self) -> int:
        """The sum of all bonds."""
        return self.even_wei + self.odd_wei


def calculate_bond_wei(depth: int) -> int:
    """Return the bond of a claim at a depth, in wei.

    Raises:
        UsageError: the game has no such depth.
    """
    if not 0 <= depth <= MAX_DEPTH:
        raise UsageError(f"depth {depth} is not in the game; take one from 0 to {MAX_DEPTH}")
    return PRICE_WEI * int(BASE_GAS * GROWTH**depth)


def make_ladder() -> Ladder:
    """Return the bonds of a game that is played to its greatest depth."""
    bonds = [calculate_bond_wei(depth) for depth in range(MAX_DEPTH + 1)]
    return Ladder(bonds[0], bonds[-1], sum(bonds[::2]), sum(bonds[1::2]))
