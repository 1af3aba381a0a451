"""Where a market is played: a referee, and an account for everybody."""

from dataclasses import dataclass

from contracts.model.types import Address
from offchain.disputes.referee import Referee
from offchain.errors import UsageError


@dataclass(frozen=True, slots=True)
class Venue:
    """A referee and the accounts that play on it, the providers' in the order of the agents."""

    referee: Referee
    contract: Address
    client: Address
    verifier: Address
    providers: tuple[Address, ...]

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All of them, the contract's included."""
        return (self.contract, self.client, self.verifier, *self.providers)


def open_venue(chain: str, providers: int) -> Venue:
    """Deploy a referee on a chain, `tester` or a URL, with accounts for so many providers.

    Raises:
        UsageError: the chain has too few accounts.
        ChainError: the chain fails.
    """
    from offchain.disputes.chain_referee import deploy  # noqa: PLC0415 - imports the chain

    referee = deploy(chain)
    if len(referee.accounts) < providers + 2:
        raise UsageError(
            f"the chain has {len(referee.accounts)} accounts; {providers} providers, a client and "
            f"a verifier need {providers + 2}"
        )
    client, verifier, *others = referee.accounts[: providers + 2]
    return Venue(referee, referee.address, client, verifier, tuple(others))
