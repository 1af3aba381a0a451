"""The port to a referee, behind which is the deployed contract or the Python model."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from moot.contracts.model.checks import find_claim, get_job, get_member
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.referee import call
from moot.contracts.model.types import (
    ZERO,
    Address,
    Claim,
    Event,
    Job,
    Member,
    Message,
    Pair,
    Store,
    copy_store,
)
from moot.contracts.model.words import hash_commitment
from moot.contracts.reasons import Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Receipt
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import ChainError, MootError, RefereeError


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the referee before it is made: by whom, and with what value in wei.

    `player` is a name for the sender, which one account may have more than one of.
    """

    name: str
    sender: Address
    args: tuple[Any, ...]
    value_wei: int = 0
    player: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An accepted call: its events, and its receipt on a chain (None on the model)."""

    events: tuple[Event, ...]
    receipt: Receipt | None


Answer = Outcome | RefereeError | ChainError
"""What came of a call: it was accepted, or refused, or never got into a block."""


class Referee(Protocol):
    """A referee that can be played on."""

    @property
    def chain_id(self) -> int:
        """The number of the chain on which the referee is."""

    @property
    def address(self) -> Address:
        """The referee's address on its chain."""

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic of the programs whose scalar operations it can compute."""

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call; `Revert` or `Reverted` when it is refused."""

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls at once, in as few blocks as have room, in this order; refusals are answers.

        What becomes of one does not change what becomes of the others.
        """

    def block_gas(self) -> int:
        """Return how much gas a block has room for."""

    def job(self, job_id: int) -> Job:
        """Return a job as it stands."""

    def member(self, job_id: int, address: Address) -> Member:
        """Return a member as it stands; one that never joined has standing NONE."""

    def claim(self, job_id: int, top: Digest) -> Claim | None:
        """Return the claim with this top, if anybody has shown it."""

    def match(self, pair: Pair) -> Digest:
        """Return the digest of a match's position; ZERO if it is not being played."""

    def debt(self, job_id: int, address: Address) -> int:
        """Return what a closed job owes an account, in wei; 0 while it is open."""

    def commitment(self, job_id: int, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest that hides a claim."""

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what has been announced of a job, in order."""

    def block_number(self) -> int:
        """Return the number of the latest block."""

    def mine(self, blocks: int) -> None:
        """Let time pass."""

    def balance(self, address: Address) -> int:
        """Return an account's balance in wei."""


def open_store(referee: Referee) -> Store:
    """Return a store of the model that stands for a referee, and remembers nothing yet."""
    return Store(referee.chain_id, referee.address, arithmetic=referee.arithmetic)


class ModelReferee:
    """The Python model, with accounts, and with one block for all calls that are sent at once."""

    def __init__(
        self,
        balances_wei: dict[Address, int],
        chain_id: int = 1,
        arithmetic: Arithmetic = ORDERED,
    ) -> None:
        self.store = Store(chain_id, "0x" + "00" * 18 + "4d07", arithmetic=arithmetic)
        self._balances = dict(balances_wei)
        self._block = 0
        self._logs: dict[int, list[Event]] = defaultdict(list)

    @property
    def chain_id(self) -> int:
        """The chain's number, as given."""
        return self.store.chain_id

    @property
    def address(self) -> Address:
        """An address that nobody else has."""
        return self.store.address

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic whose scalar operations the model computes, as given."""
        return self.store.arithmetic

    def fork(self) -> "ModelReferee":
        """Return a referee that remembers the same, and goes its own way."""
        twin = ModelReferee(self._balances, self.chain_id, self.arithmetic)
        twin.store, twin._block = copy_store(self.store), self._block
        for job_id, log in self._logs.items():
            twin._logs[job_id] = log.copy()
        return twin

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call in a block of its own."""
        self._block += 1
        return self.make(Call(name, sender, args, value_wei))

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls in one block."""
        self._block += 1
        answers: list[Answer] = []
        for made in calls:
            try:
                answers.append(self.make(made))
            except RefereeError as refusal:
                answers.append(refusal)
        return answers

    def make(self, made: Call) -> Outcome:
        """Make a call in the latest block, as one of several."""
        sender, value_wei = made.sender, made.value_wei
        if self._balances.get(sender, 0) < value_wei:
            raise MootError(f"{sender} cannot pay {value_wei} wei")
        message = Message(sender, value_wei, self._block)
        events = call(self.store, made.name, message, *made.args)
        self._balances[sender] -= value_wei
        for event in events:
            match event.name, event.args:
                case "Collected", (_, _, int(owed_wei)):
                    self._balances[sender] += owed_wei
            self._logs[int(str(event.args[0]))].append(event)
        return Outcome(events, None)

    def block_gas(self) -> int:
        """Return what a block of a chain has room for; the model charges nothing."""
        return 30_000_000

    def job(self, job_id: int) -> Job:
        """Return a job as it stands."""
        return get_job(self.store, job_id)

    def member(self, job_id: int, address: Address) -> Member:
        """Return a member as it stands."""
        return get_member(self.store, job_id, address)

    def claim(self, job_id: int, top: Digest) -> Claim | None:
        """Return the claim with this top, if anybody has shown it."""
        return find_claim(self.store, job_id, top)

    def match(self, pair: Pair) -> Digest:
        """Return the digest of a match's position; ZERO if it is not being played."""
        return self.store.matches.get(pair, ZERO)

    def debt(self, job_id: int, address: Address) -> int:
        """Return what a closed job owes an account, in wei."""
        job = self.job(job_id)
        if job.status is Status.OPEN:
            return 0
        return calculate_debt(self.store, job_id, job, address)

    def commitment(self, job_id: int, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest that hides a claim."""
        return hash_commitment(self.store, job_id, sender, top, salt)

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what has been announced of a job, in order."""
        return self._logs[job_id]

    def block_number(self) -> int:
        """Return the number of the latest block."""
        return self._block

    def mine(self, blocks: int) -> None:
        """Let time pass."""
        self._block += blocks

    def balance(self, address: Address) -> int:
        """Return an account's balance in wei."""
        return self._balances.get(address, 0)
