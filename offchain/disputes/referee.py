"""One port to the referee, with two sides behind it: the deployed contract and the Python model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from contracts.model.checks import compute_position
from contracts.model.referee import call, compute_commitment
from contracts.model.types import Address, Event, Job, Match, Message, Store
from offchain.chain import Receipt
from offchain.commitments.tree import Digest
from offchain.errors import MootError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an accepted call announced, and what it cost on a chain (None on the model)."""

    events: tuple[Event, ...]
    receipt: Receipt | None


class Referee(Protocol):
    """A referee that can be played on."""

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call; `Revert` or `Reverted` when it is refused."""

    def job(self, job_id: int) -> Job:
        """Return a job as it stands."""

    def position(self, job_id: int, match: Match) -> Digest:
        """Return the digest that the next move of a match that stands like this has to name."""

    def commitment(self, job_id: int, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest that hides a claim."""

    def credit(self, address: Address) -> int:
        """Return what an account may withdraw, in wei."""

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what has been announced of a job, in order."""

    def block_number(self) -> int:
        """Return the number of the latest block."""

    def mine(self, blocks: int) -> None:
        """Let time pass."""

    def balance(self, address: Address) -> int:
        """Return an account's balance in wei."""


class ModelReferee:
    """The Python model, with accounts and a clock of one block a call."""

    def __init__(self, balances_wei: dict[Address, int], chain_id: int = 1) -> None:
        self.store = Store(chain_id, "0x" + "00" * 18 + "4d07")
        self._balances = dict(balances_wei)
        self._block = 0
        self._log: list[Event] = []

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call in a block of its own."""
        if self._balances.get(sender, 0) < value_wei:
            raise MootError(f"{sender} cannot pay {value_wei} wei")
        self._block += 1
        owed = self.store.credits_wei.get(sender, 0)
        events = call(self.store, name, Message(sender, value_wei, self._block), *args)
        self._balances[sender] -= value_wei
        if name == "withdraw":
            self._balances[sender] += owed
        self._log += events
        return Outcome(events, None)

    def job(self, job_id: int) -> Job:
        """Return a job as it stands."""
        return self.store.jobs[job_id]

    def position(self, job_id: int, match: Match) -> Digest:
        """Return the digest that the next move has to name."""
        return compute_position(self.store, job_id, match)

    def commitment(self, job_id: int, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest that hides a claim."""
        return compute_commitment(self.store, job_id, sender, top, salt)

    def credit(self, address: Address) -> int:
        """Return what an account may withdraw, in wei."""
        return self.store.credits_wei.get(address, 0)

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what has been announced of a job, in order."""
        return [event for event in self._log if event.args[0] == job_id]

    def block_number(self) -> int:
        """Return the number of the latest block."""
        return self._block

    def mine(self, blocks: int) -> None:
        """Let time pass."""
        self._block += blocks

    def balance(self, address: Address) -> int:
        """Return an account's balance in wei."""
        return self._balances.get(address, 0)
