"""The deployed referee, behind the same port as the model."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

from contracts.deployment import deploy_referee
from contracts.model.checks import compute_position
from contracts.model.referee import compute_commitment
from contracts.model.types import (
    ZERO,
    Address,
    Event,
    Job,
    Match,
    Member,
    Store,
    Terms,
)
from contracts.reasons import LeafMode, Phase, Standing
from offchain.chain import Address as ChainAddress
from offchain.chain import Chain, Contract, connect
from offchain.chain import Event as ChainEvent
from offchain.commitments.tree import Digest
from offchain.disputes.referee import Outcome


def deploy(url: str) -> "ChainReferee":
    """Open a chain and deploy a referee on it."""
    started = time.perf_counter()
    chain = connect(url)
    contract = deploy_referee(chain, chain.accounts[0])
    referee = ChainReferee(chain, contract)
    referee.seconds = time.perf_counter() - started
    return referee


class ChainReferee:
    """A referee contract on a chain.

    Attributes:
        seconds: time spent on the chain so far.
    """

    def __init__(self, chain: Chain, contract: Contract) -> None:
        self._chain = chain
        self._contract = contract
        self._log: list[Event] = []
        self._read_up_to = chain.block_number()
        self.seconds = 0.0
        self.address: Address = contract.address
        self.accounts: tuple[Address, ...] = chain.accounts
        self._store = Store(chain.chain_id, contract.address)

    @contextmanager
    def _clock(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call in a transaction."""
        with self._clock():
            plain = tuple(map(_to_abi, args))
            receipt = self._contract.transact(
                name, *plain, sender=ChainAddress(sender), value=value_wei
            )
        return Outcome(tuple(map(_to_event, receipt.events)), receipt)

    def job(self, job_id: int) -> Job:
        """Return a job as it stands."""
        with self._clock():
            client, terms, reward, opened, matches, is_playing, is_settled = self._contract.call(
                "get_job", job_id
            )
            members = self._contract.call("get_members", job_id)
            match = self._contract.call("get_match", job_id) if is_playing else None
        return Job(
            client=client,
            terms=_to_terms(terms),
            reward_wei=reward,
            opened_block=opened,
            members=tuple(_to_member(*member) for member in members),
            matches=matches,
            match=_to_match(match) if match is not None else None,
            is_settled=is_settled,
        )

    def position(self, job_id: int, match: Match) -> Digest:
        """Return the digest that the next move has to name."""
        return compute_position(self._store, job_id, match)

    def commitment(self, job_id: int, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest that hides a claim."""
        return compute_commitment(self._store, job_id, sender, top, salt)

    def credit(self, address: Address) -> int:
        """Return what an account may withdraw, in wei."""
        with self._clock():
            return int(self._contract.call("credits_wei", address))

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what has been announced of a job, in order."""
        with self._clock():
            latest = self._chain.block_number()
            if latest > self._read_up_to:
                found = self._contract.events(self._read_up_to + 1, latest)
                self._log += [_to_event(event) for _, event in found]
                self._read_up_to = latest
        return [event for event in self._log if event.args[0] == job_id]

    def block_number(self) -> int:
        """Return the number of the latest block."""
        with self._clock():
            return self._chain.block_number()

    def mine(self, blocks: int) -> None:
        """Let time pass."""
        with self._clock():
            self._chain.mine(blocks)

    def balance(self, address: Address) -> int:
        """Return an account's balance in wei."""
        with self._clock():
            return self._chain.balance(ChainAddress(address))


def _to_abi(value: Any) -> Any:
    """Return an argument as the ABI takes it: a dataclass as a tuple."""
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(_to_abi(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, (list, tuple)):
        return [_to_abi(item) for item in value]
    return value


def _to_event(event: ChainEvent) -> Event:
    return Event(event.name, tuple(event.args.values()))


def _to_terms(values: Sequence[Any]) -> Terms:
    terms = Terms(*values)
    return replace(terms, leaf_mode=LeafMode(terms.leaf_mode))


def _to_member(account: Address, standing: int, claim: Digest) -> Member:
    if standing == Standing.COMMITTED:
        return Member(account, claim)
    return Member(account, ZERO, claim, Standing(standing))


def _to_match(values: Sequence[Any]) -> Match:
    match = Match(*values)
    return replace(match, phase=Phase(match.phase))
