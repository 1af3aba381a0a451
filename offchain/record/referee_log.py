"""The log of a referee on a chain: read whole and through reorganisations; nothing is sent."""

from collections.abc import Iterator, Sequence
from itertools import groupby, product
from typing import Any, Self

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import bind_referee
from moot.contracts.model.abi import CALLED_THROUGH, EventReader, unpack_job
from moot.contracts.model.types import Event
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.chain import Address, Chain, Contract
from moot.offchain.chain import Event as ChainEvent
from moot.offchain.chain.receipts import Log, Past
from moot.offchain.disputes.referee.chain_log import ChainLog
from moot.offchain.disputes.referee.code import CHALLENGES, REFEREE, compare_codes
from moot.offchain.errors import BadCall, UsageError
from moot.offchain.record.entries import Entry, read_encoding, read_leaf


class RefereeLog:
    """A referee on a chain, and what was called on it from a block on.

    Args:
        chain: the chain.
        contract: the referee.
        arithmetic: what its leaf contract computes in.
        first_block: the block in which the referee was deployed, or any before.
    """

    def __init__(
        self,
        chain: Chain,
        contract: Contract,
        arithmetic: Arithmetic,
        first_block: int = 0,
        kind: str = REFEREE,
    ) -> None:
        self.chain = chain
        self.arithmetic = arithmetic
        self.address: Address = contract.address
        self._contract, self._kind = contract, kind
        self._reader = EventReader()
        self._others: dict[str, Contract] = {}
        self._log: ChainLog[Entry] = ChainLog(chain, lambda: first_block, self._fetch)

    @classmethod
    def find(cls, chain: Chain, address: Address, first_block: int = 0) -> Self:
        """Return the log of the referee at an address, or of challenges of receipts.

        Raises:
            UsageError: there is no contract, or one that is no referee of this version.
        """
        own = [it for it in ARITHMETICS.values() if it.ends_on_chain]
        bind_referee(chain, address)  # refuses an address without code
        for kind, arithmetic in product((REFEREE, CHALLENGES), own):
            found = compare_codes(chain, address, arithmetic, kind)
            if all(problem is None for _, problem in found):
                contract = bind_referee(chain, address, arithmetic)
                return cls(chain, contract, arithmetic, first_block, kind)
        raise UsageError(
            f"the contract at {address} is no referee of this version; give the address of one, "
            "or use the version of moot that deployed it"
        )

    @property
    def head(self) -> int:
        """The block up to which the log was read last."""
        return self._log.head

    def read(self) -> list[Entry]:
        """Return all entries that the chain holds now; those of before are the same objects.

        Raises:
            ChainError: the chain cannot be read, or what it tells is no referee's log.
        """
        try:
            return self._log.read()
        except KeyError as error:
            problem = "it begins in the middle of a job; read it from an earlier block"
            raise BadCall("the referee's log", problem) from error

    def require_referee(self) -> None:
        """Refuse to go on where the chain has no referee any more: it is another one by now."""
        if not self.chain.node.get_code(self.address):
            raise UsageError(f"no contract at {self.address} any more; the chain began anew")

    def _fetch(self, first: int, last: int) -> Iterator[tuple[int, Entry]]:
        found = self._contract.trace(first, last)
        for (block, transaction), group in groupby(found, key=_get_transaction):
            events = [self._read(event) for _, event in group]
            yield block, self._make_entry(block, transaction, events)

    def _read(self, event: ChainEvent) -> Event:
        return self._reader.read(event.name, tuple(event.args.values()))

    def _make_entry(self, block: int, transaction: str, events: Sequence[Event]) -> Entry:
        past = self.chain.node.get_past(transaction, block)
        opened = [event for event in events if event.name == "JobOpened"]
        job = unpack_job(self._contract.call("jobs", opened[0].args[0])) if opened else None
        if past is None:  # it was replaced meanwhile: the log is read again
            return Entry(block, tuple(events), "", "", job)
        name, args = self._read_call(past)
        return Entry(
            block=block,
            events=tuple(events),
            call=name,
            sender=past.sender,
            job=job,
            encoding=read_encoding(name, args),
            leaf=read_leaf(name, args),
            transaction=past.transaction_hash,
            gas=past.gas_used,
            calldata_bytes=len(past.data),
            gas_price_wei=past.gas_price_wei,
        )

    def _read_call(self, past: Past) -> tuple[str, tuple[Any, ...]]:
        """Return the call of a transaction as the model takes it; no name if it is none of ours."""
        if past.to == self.address:
            return self._contract.read_call(past.data) or ("", ())
        asked = dict.fromkeys(CALLED_THROUGH.values())
        for name in asked if self._kind == REFEREE else ("leaf",):
            other = self._find(name)
            if past.to == other.address:
                called = other.read_call(past.data)
                return (called[0], called[1][1:]) if called else ("", ())
        return "", ()

    def _find(self, name: str) -> Contract:
        """Return a contract that the referee trusts."""
        if name not in self._others:
            artifact = compile_contract(name, arithmetic=self.arithmetic.contracts)
            address = self._contract.call(f"{name}_contract")
            self._others[name] = self.chain.at(artifact, address)
        return self._others[name]


def _get_transaction(found: tuple[Log, ChainEvent]) -> tuple[int, str]:
    log, _ = found
    return log.place[0], log.transaction_hash
