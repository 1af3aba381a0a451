"""The deployed referee, behind the same port as the model."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import deploy_referee
from moot.contracts.model.abi import (
    CALLED_THROUGH,
    EventReader,
    get_key,
    pack_call,
    unpack_claim,
    unpack_job,
    unpack_member,
)
from moot.contracts.model.types import Address, Claim, Event, Job, Member, Pair
from moot.contracts.model.words import hash_commitment, hash_pair
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Address as ChainAddress
from moot.offchain.chain import Chain, Contract, connect
from moot.offchain.chain import Event as ChainEvent
from moot.offchain.chain.receipts import Transaction
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.referee.gas import offer_gas
from moot.offchain.disputes.referee.job_log import JobLog
from moot.offchain.disputes.referee.port import Answer, Call, Outcome, open_store
from moot.offchain.errors import BadCall, ChainError, ChainUnavailable

SENSELESS = (BadCall, LookupError, TypeError, ValueError, OverflowError)
"""What reading an answer raises that is none of the referee's code."""


RefereeT = TypeVar("RefereeT", bound="ChainReferee")


def deploy(url: str, arithmetic: Arithmetic = ORDERED) -> "ChainReferee":
    """Open a chain and deploy on it a referee of programs of an arithmetic."""
    return deploy_as(ChainReferee, url, arithmetic)


def deploy_as(kind: type[RefereeT], place: Chain | str, arithmetic: Arithmetic) -> RefereeT:
    """Deploy a referee of a kind on a chain, which is opened if an address is given."""
    started = time.perf_counter()
    chain = connect(place) if isinstance(place, str) else place
    first_block = chain.block_number()
    contract = deploy_referee(chain, chain.accounts[0], arithmetic)
    referee = kind(chain, contract, first_block, arithmetic)
    referee.seconds = time.perf_counter() - started
    return referee


class ChainReferee:
    """A referee contract on a chain.

    Args:
        chain: the chain.
        contract: the referee.
        first_block: the block in which it was deployed, or any before.
        arithmetic: the one whose scalar operations its leaf contract computes.

    Attributes:
        chain: the chain, as given.
        first_block: likewise.
        seconds: time spent on the chain so far.
    """

    def __init__(
        self,
        chain: Chain,
        contract: Contract,
        first_block: int,
        arithmetic: Arithmetic = ORDERED,
    ) -> None:
        self.chain = chain
        self._contract = contract
        self.first_block = first_block
        self._trusted: dict[str, Contract] = {}
        self._logs: dict[int, JobLog] = {}
        self.seconds = 0.0
        self.address: Address = contract.address
        self.chain_id: int = chain.chain_id
        self.accounts: tuple[Address, ...] = chain.accounts
        self._reader = EventReader()
        self.arithmetic = arithmetic
        self._store = open_store(self)

    @contextmanager
    def _clock(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    def _find(self, name: str) -> Contract:
        """Return a contract that the referee trusts."""
        if name not in self._trusted:
            address = self._view(f"{name}_contract")
            artifact = compile_contract(name, arithmetic=self.arithmetic.contracts)
            self._trusted[name] = self.chain.at(artifact, address)
        return self._trusted[name]

    def distrust(self, problem: str) -> ChainUnavailable:
        """Leave the node, which contradicts itself or the contract; return the error for it."""
        return self.chain.node.distrust(problem)

    @contextmanager
    def _decoding(self, what: str) -> Iterator[None]:
        """Make an answer that is none of the referee's code, which is known, the node's fault."""
        try:
            yield
        except SENSELESS as error:
            problem = f"what it tells of {what} is not of the referee's code"
            raise self.distrust(problem) from error

    def _read(self, event: ChainEvent) -> Event:
        return self._reader.read(event.name, tuple(event.args.values()))

    def _view(self, name: str, *args: Any) -> Any:
        with self._clock(), self._decoding(name):
            return self._contract.call(name, *args)

    def _unpack_job(self, words: Sequence[Any]) -> Job:
        with self._decoding("a job"):
            return unpack_job(words)

    def _unpack_member(self, word: int) -> Member:
        with self._decoding("a member"):
            return unpack_member(word)

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call in a transaction of its own block."""
        (answer,) = self.transact_all([Call(name, sender, args, value_wei)])
        if isinstance(answer, Outcome):
            return answer
        raise answer

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls, each in a transaction, all of which are sent before any is waited for."""
        with self._clock():
            prepared = [self._prepare(call) for call in calls]
            with self._decoding("receipts"):
                receipts = self._contract.send(prepared)
        answers: list[Answer] = []
        for call, receipt in zip(calls, receipts, strict=True):
            if isinstance(receipt, ChainError):
                answers.append(receipt)
                continue
            if call.args and isinstance(call.args[0], Pair):
                self._reader.note(call.args[0])
            with self._decoding("receipts"):
                answers.append(Outcome(tuple(map(self._read, receipt.events)), receipt))
        return answers

    def _prepare(self, call: Call) -> Transaction:
        """Return the transaction of a call; other contracts make their own of the referee."""
        other = CALLED_THROUGH.get(call.name)
        through = None if other is None else self._find(other)
        return offer_gas(
            self._contract.prepare(
                call.name,
                *pack_call(call.name, call.args, self.address),
                sender=ChainAddress(call.sender),
                value=call.value_wei,
                through=through,
            )
        )

    def block_gas(self) -> int:
        """Return how much gas a block has room for."""
        with self._clock():
            return self.chain.node.get_block_gas()

    def job(self, job_id: int) -> Job:
        """Return a job as it stands."""
        return self._unpack_job(self._view("jobs", job_id))

    def member(self, job_id: int, address: Address) -> Member:
        """Return a member as it stands."""
        return self._unpack_member(self._view("members", job_id, address))

    def claim(self, job_id: int, top: Digest) -> Claim | None:
        """Return the claim with this top, if anybody has shown it."""
        return unpack_claim(top, self._view("claims", job_id, get_key(top)))

    def match(self, pair: Pair) -> Digest:
        """Return the digest of a match's position; ZERO if it is not being played."""
        return bytes(self._view("matches", hash_pair(pair)))

    def debt(self, job_id: int, address: Address) -> int:
        """Return what a closed job owes an account, in wei."""
        return int(self._view("get_debt", job_id, address))

    def commitment(self, job_id: int, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest that hides a claim."""
        return hash_commitment(self._store, job_id, sender, top, salt)

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what has been announced of a job, in order, as far as the chain holds it now."""
        with self._clock():
            if job_id not in self._logs:
                self._logs[job_id] = JobLog(
                    self.chain,
                    self._contract,
                    job_id,
                    lambda: max(self.first_block, self._find_opening(job_id)),
                    self._reader,
                )
            return self._logs[job_id].read()

    def _find_opening(self, job_id: int) -> int:
        """Return the block in which a job was opened; 0 if there is no such job."""
        return unpack_job(self._contract.call("jobs", job_id)).opened_block

    def block_number(self) -> int:
        """Return the number of the latest block."""
        with self._clock():
            return self.chain.block_number()

    def mine(self, blocks: int) -> None:
        """Let time pass."""
        with self._clock():
            self.chain.mine(blocks)

    def balance(self, address: Address) -> int:
        """Return an account's balance in wei."""
        with self._clock():
            return self.chain.balance(ChainAddress(address))
