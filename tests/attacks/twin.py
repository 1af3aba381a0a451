"""The model and the contract side by side: every call goes to both, and is compared."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, cast

import pytest

from moot.contracts.model.types import NOBODY, Address, Event, Message, Store
from moot.contracts.reasons import Reason, Revert
from moot.offchain.chain import Chain, Contract
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.port import Outcome
from moot.offchain.errors import Reverted
from tests.projection import call_model, compare_words


class Twin(ChainReferee):
    """The deployed referee, with the model beside it.

    After every call both must say the same: accepted or refused, and why; the events; every word
    that is remembered; all balances. A refused call must have changed nothing on either.

    A block of the chain holds one transaction, so that a call's block is known before it is sent.
    """

    def __init__(self, chain: Chain, contract: Contract) -> None:
        super().__init__(chain, contract, chain.block_number())
        self.chain, self.contract = chain, contract
        self.store = Store(chain.chain_id, contract.address)
        self.log: dict[int, list[Event]] = defaultdict(list)
        self.watched: list[str] = [*chain.accounts, contract.address, NOBODY]
        self._balances: tuple[bytes, dict[str, int]] = b"", {}

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call on both, and compare them.

        Raises:
            Revert: both refuse the call, for the same reason.
        """
        message = Message(sender, value_wei, self.chain.block_number() + 1)
        held, burned_wei = self._get_balances(), self.store.burned_wei
        try:
            events = call_model(self.store, name, message, *args)
        except Revert as refusal:
            self._refuse(name, message, *args, reason=Reason(refusal.reason))
            raise
        outcome = super().transact(name, *args, sender=sender, value_wei=value_wei)
        assert outcome.events == events
        self.note(events)
        assert outcome.receipt is not None
        fee_wei = outcome.receipt.gas_used * outcome.receipt.effective_gas_price
        self._compare_money(held, message, events, fee_wei, self.store.burned_wei - burned_wei)
        self._compare_words(_get_job_id(events))
        return outcome

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> Sequence[Event]:
        """Make a call on both, and return its events."""
        return self.transact(name, *args, sender=sender, value_wei=value_wei).events

    def refused(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str:
        """Make a call that both must refuse, and return the reason."""
        with pytest.raises(Revert) as refusal:
            self.transact(name, *args, sender=sender, value_wei=value_wei)
        return refusal.value.reason

    def _refuse(self, name: str, message: Message, *args: Any, reason: Reason) -> None:
        before, storage = self._get_balances(), self._get_storage()
        with pytest.raises(Reverted) as refusal:
            super().transact(name, *args, sender=message.sender, value_wei=message.value_wei)
        assert refusal.value.reason == reason, (name, args)
        assert self._get_storage() == storage
        after = self._get_balances()
        fee_wei = before[message.sender] - after[message.sender]
        # What is left of the fee above the base fee goes to whoever makes the block.
        assert after[NOBODY] - before[NOBODY] <= fee_wei
        assert {**after, message.sender: 0, NOBODY: 0} == {**before, message.sender: 0, NOBODY: 0}

    def _compare_money(
        self,
        held: dict[str, int],
        message: Message,
        events: Sequence[Event],
        fee_wei: int,
        burned_wei: int,
    ) -> None:
        collected = sum(_read_amount(event) for event in events if event.name == "Collected")
        expected = held | {self.address: self.store.balance_wei}
        expected[message.sender] += collected - message.value_wei - fee_wei
        expected[NOBODY] += burned_wei + fee_wei - self._get_base_fee()
        assert self._get_balances() == expected

    def note(self, events: Sequence[Event]) -> None:
        """Add the events of a call to those of its job."""
        self.log[_get_job_id(events)] += events

    def compare(self) -> None:
        """Compare the storage of both, and the contract's balance."""
        for job_id in range(len(self.store.jobs)):
            self._compare_words(job_id)
        assert self.balance(self.address) == self.store.balance_wei

    def _compare_words(self, job_id: int) -> None:
        """Compare every word that is remembered of a job."""
        assert self.job(job_id) == self.store.jobs[job_id]
        compare_words(self.contract.call, self.store, job_id)

    def mine_to(self, block: int) -> None:
        """Mine blocks so that the next call is in this block."""
        missing = block - 1 - self.chain.block_number()
        assert missing >= 0, "that block is in the past"
        self.chain.mine(missing)

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Let the test go on from here, and bring the chain and the model back afterwards."""
        mark, store, log = self.chain.snapshot(), deepcopy(self.store), deepcopy(self.log)
        try:
            yield
        finally:
            self.chain.revert(mark)
            self.store, self.log = store, log

    @property
    def leaf(self) -> Contract:
        """The contract that computes leaves."""
        return self._find("leaf")

    @property
    def legality(self) -> Contract:
        """The contract that takes proofs that a program is not legal."""
        return self._find("legality")

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what has been announced of a job, in order."""
        return self.log[job_id]

    def watch(self, address: str) -> None:
        """Compare the balance of this address, too."""
        self.watched.append(address)
        self._balances = b"", {}

    @property
    def _state(self) -> Any:
        chain = cast("Any", self.chain.node)._chain
        return chain.get_vm(chain.get_canonical_head()).state

    def _get_base_fee(self) -> int:
        header = cast("Any", self.chain.node)._chain.get_canonical_head()
        return int(header.base_fee_per_gas * header.gas_used)

    def _get_balances(self) -> dict[str, int]:
        """Return what each watched address holds; as long as the state's root stays, so do they."""
        root = bytes(cast("Any", self.chain.node)._chain.get_canonical_head().state_root)
        if self._balances[0] != root:
            state = self._state
            held = {a: state.get_balance(bytes.fromhex(a[2:])) for a in self.watched}
            self._balances = root, held
        return self._balances[1]

    def _get_storage(self) -> tuple[bytes, int]:
        """Return the digest of the contract's storage, and what it holds in wei."""
        address = bytes.fromhex(self.address[2:])
        account = self._state._account_db._get_account(address)
        return account.storage_root, account.balance


def _get_job_id(events: Sequence[Event]) -> int:
    return int(str(events[0].args[0]))


def _read_amount(event: Event) -> int:
    return int(str(event.args[2]))
