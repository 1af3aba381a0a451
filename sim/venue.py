"""Where a market is played: a referee, and an account for everybody."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from moot.contracts.model.types import Address
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.referee import Referee
from moot.offchain.errors import UsageError


@dataclass(frozen=True, slots=True)
class Venue:
    """A fresh referee, and the accounts that play on it.

    Attributes:
        referee: the contract or the model.
        client: opens the jobs.
        verifier: posts rulings.
        providers: the accounts of each agent.
    """

    referee: Referee
    client: Address
    verifier: Address
    providers: tuple[tuple[Address, ...], ...]

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All of them, the referee's included."""
        return (
            self.referee.address,
            self.client,
            self.verifier,
            *chain.from_iterable(self.providers),
        )


def open_venue(url: str, counts: Sequence[int], arithmetic: Arithmetic = ORDERED) -> Venue:
    """Deploy a referee of programs of an arithmetic, with so many accounts for each provider.

    Args:
        url: of the chain, or `tester`.
        counts: the accounts of each provider.
        arithmetic: that of the programs.

    Raises:
        UsageError: the chain has too few accounts.
        ChainError: the chain fails.
    """
    from moot.offchain.disputes.chain_referee import deploy  # noqa: PLC0415 - imports the chain

    referee = deploy(url, arithmetic)
    needed = sum(counts) + 2
    if len(referee.accounts) < needed:
        raise UsageError(
            f"the chain has {len(referee.accounts)} accounts; {len(counts)} providers, a client "
            f"and a verifier need {needed}"
        )
    client, verifier, *others = referee.accounts[:needed]
    return Venue(referee, client, verifier, deal(others, counts))


def deal(accounts: Iterable[Address], counts: Sequence[int]) -> tuple[tuple[Address, ...], ...]:
    """Return so many accounts for each."""
    left = iter(accounts)
    return tuple(tuple(islice(left, count)) for count in counts)
