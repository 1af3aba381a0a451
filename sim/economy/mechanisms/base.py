"""The protocols of a market's rules: pricing, matching, bonds, audits and reputation.

A rule is a frozen dataclass whose fields are its parameters. It sees facts, returns numbers, and
remembers nothing; the market draws and pays. What a parameter can't be, `__post_init__` refuses.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from moot.offchain.errors import UsageError


class Mechanism:
    """The base of a market's rule, which a user's own may inherit from.

    A rule of pricing has `count_bidders` and `sell`; of matching, `weigh`; of bonds, `size`; of
    audits, what `Audit` has; of reputation, `begin` and `update`. Amounts are in gwei, reputations
    and rates from 0 to 1. What raises, or answers what is no answer, ends the run.

    Example:
        >>> from dataclasses import dataclass
        >>> import moot
        >>> @dataclass(frozen=True)
        ... class HalfOfValue(moot.Mechanism):
        ...     def size(self, value_gwei, reputation):
        ...         return value_gwei // 2
        >>> moot.simulate(bond=HalfOfValue(), jobs=20).counts["failed"]
        0
    """


class Sold(NamedTuple):
    """What pricing comes to: which bidders get a job, by index, and what each of them is paid."""

    winners: Sequence[int]
    price_gwei: int


class Pricing(Protocol):
    """The rule that says who of those who are asked gets a job, and what it is paid."""

    def count_bidders(self, seats: int) -> int:
        """Return how many providers are asked for a job that so many of them shall run."""

    def sell(self, bids: Sequence[int], seats: int, value_gwei: int) -> Sold | None:
        """Return who gets a job; None if the price is too high for the client.

        Args:
            bids: the least that each bidder would run the job for, in gwei.
            seats: how many shall run it.
            value_gwei: what a right answer is worth to the client.
        """


class Matching(Protocol):
    """The rule that says who is asked."""

    def weigh(self, reputation: float, stake_gwei: int) -> float:
        """Return the chance, from 0 to 1, that a provider that comes up is asked.

        Args:
            reputation: from 0 to 1.
            stake_gwei: all money that it has in the market.
        """


class Bonding(Protocol):
    """The rule that says how much a provider locks."""

    def size(self, value_gwei: int, reputation: float) -> int:
        """Return the bond of each account in gwei.

        Args:
            value_gwei: what a right answer is worth to the client.
            reputation: the provider's, from 0 to 1.
        """


class Audit(Mechanism):
    """A rule of audits; what it does not say is that nobody is paid, and no error forced."""

    is_public = True
    """Whether providers know the rate."""

    is_paid_from_bonds = False
    """Whether lost bonds go to a fund, instead of being burned, that pays for audits."""

    def choose_rate(self, reputation: float) -> float:
        """Return how often a watcher is asked to check a job of a provider."""
        del reputation
        return 0.0

    def choose_fee(self, work_gwei: int) -> int:
        """Return what a watcher is paid that is asked, in gwei, if its check costs so much."""
        del work_gwei
        return 0

    def choose_forced_rate(self) -> float:
        """Return how often a provider is told to make an error, which is not its fault."""
        return 0.0

    def choose_jackpot(self) -> int:
        """Return what is paid to a watcher that finds a forced error, in gwei."""
        return 0


class Reputing(Protocol):
    """The rule that says how a provider's reputation changes."""

    def begin(self) -> float:
        """Return the reputation of a new provider, from 0 to 1."""

    def update(self, reputation: float, blocks: int, *, is_good: bool) -> float:
        """Return the reputation after a job.

        Args:
            reputation: after the last one.
            blocks: how long ago that was.
            is_good: whether the provider has kept its bond in this job.
        """


def check_rate(rate: float) -> None:
    """Refuse what is no rate of audits."""
    if not 0 <= rate <= 1:
        raise UsageError(f"an audit rate of {rate} is none; choose 0 to 1")
