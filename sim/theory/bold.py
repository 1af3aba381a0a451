"""BoLD's resource ratio, and the stakes that it takes (arXiv 2404.10491, section 6).

The ratio is what an attacker spends for one more false claim, over what the honest side has to
spend because of it; a lost stake counts, and so does a stake that the honest side has to lock one
level below. A challenge of one level with k bisections costs the attacker k G_bisect and its stake,
and the honest side G_proof + (k + 1) (G_update + G_bisect). So the stake

    S >= rho (G_proof + (k + 1) G_update + G_bisect) + (rho - 1) k G_bisect

makes the ratio at least rho. With levels below, rho times the stake of the next level comes to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from moot.offchain.errors import UsageError

PUBLISHED_RATIO = 6.46
PUBLISHED_PRICE_WEI = 500 * 10**9
PUBLISHED_STAKES_WEI = (3_600 * 10**18, 555 * 10**18, 79 * 10**18)
"""The stakes of Arbitrum One: of an assertion, of big steps, of small steps."""


@dataclass(frozen=True, slots=True)
class Level:
    """The gas of a challenge at one level.

    Attributes:
        shared_gas: what either side spends: k bisections.
        honest_gas: what the honest side spends above that: the proof, k + 1 updates of timers, and
            the bisection that is one more than the attacker's.
    """

    shared_gas: int
    honest_gas: int

    @classmethod
    def of(cls, proof_gas: int, update_gas: int, bisect_gas: int, bisections: int) -> Self:
        """Return the level of so many bisections, from the gas of each kind of call."""
        return cls(
            shared_gas=bisections * bisect_gas,
            honest_gas=proof_gas + (bisections + 1) * update_gas + bisect_gas,
        )

    @property
    def defence_gas(self) -> int:
        """What the honest side spends in all."""
        return self.shared_gas + self.honest_gas


ARBITRUM = (
    Level(12_481_326, 3_589_135),
    Level(12_319_809, 5_221_231),
    Level(15_210_544, 11_884_552),
)
"""The levels of blocks, big steps and small steps, as Arbitrum's published calculation has them."""


def calculate_stakes_wei(levels: Sequence[Level], ratio: float, price_wei: int) -> list[float]:
    """Return the least stakes that give every level a ratio, in wei, the highest level first.

    Raises:
        UsageError: the ratio or the price is not positive.
    """
    _check(price_wei, ratio=ratio)
    stakes = [0.0]
    for level in reversed(levels):
        gas = ratio * level.honest_gas + (ratio - 1) * level.shared_gas
        stakes.append(price_wei * gas + ratio * stakes[-1])
    return stakes[:0:-1]


def calculate_ratios(
    levels: Sequence[Level], stakes_wei: Sequence[float], price_wei: int
) -> list[float]:
    """Return the resource ratio of every level, given its stake and the price of gas.

    Raises:
        UsageError: the price is not positive.
        ValueError: there are not as many stakes as levels.
    """
    _check(price_wei)
    below = (*stakes_wei[1:], 0)
    return [
        (stake + price_wei * level.shared_gas) / (next_stake + price_wei * level.defence_gas)
        for level, stake, next_stake in zip(levels, stakes_wei, below, strict=True)
    ]


def _check(price_wei: int, ratio: float = 1) -> None:
    if price_wei <= 0 or ratio <= 0:
        raise UsageError(f"a ratio of {ratio} at {price_wei} wei a gas: both have to be positive")
