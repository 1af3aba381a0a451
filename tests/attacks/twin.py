"""The model and the contract on a chain, side by side: every call goes to both."""

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
from tests.lockstep.twin import RefereeTwin, Side
from tests.machines.base import Result


class Twin(ChainReferee):
    """The deployed referee, with the model beside it.

    What `RefereeTwin` compares is compared after every call. A refused call must have changed
    nothing on either.

    A block of the chain holds one transaction, so that a call's block is known before it is sent.
    """

    def __init__(self, chain: Chain, contract: Contract) -> None:
        super().__init__(chain, contract, chain.block_number())
        self.contract = contract
        self.log: dict[int, list[Event]] = defaultdict(list)
        self.watched: list[str] = [*chain.accounts, contract.address, NOBODY]
        self._balances: tuple[bytes, dict[str, int]] = b"", {}
        self.both = _OnChain(self)

    @property
    def store(self) -> Store:
        """What the model remembers."""
        return self.both.store

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call on both, and compare them.

        Raises:
            Revert: both refuse the call, for the same reason.
        """
        reason = self.both.call(name, sender, *args, value_wei=value_wei)
        if reason is not None:
            raise Revert(Reason(reason))
        return self.both.outcome

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> Sequence[Event]:
        """Make a call on both, and return its events."""
        return self.transact(name, *args, sender=sender, value_wei=value_wei).events

    def refused(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str:
        """Make a call that both must refuse, and return the reason."""
        with pytest.raises(Revert) as refusal:
            self.transact(name, *args, sender=sender, value_wei=value_wei)
        return refusal.value.reason

    def play_model(self, name: str, message: Message, *args: Any) -> Sequence[Event]:
        """Make a call on the model only, which must be accepted, and return its events."""
        assert self.both.play_model(self.both.sides[0], name, message, args) is None
        return self.both.events

    def compare(self) -> None:
        """Compare the storage of both, and the contract's balance."""
        for job_id in range(len(self.store.jobs)):
            self.both.compare_job(job_id)
        assert self.balance(self.address) == self.store.balance_wei

    def mine_to(self, block: int) -> None:
        """Mine blocks so that the next call is in this block."""
        self.both.block = block

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Let the test go on from here, and bring the chain and the model back afterwards."""
        both, (side,) = self.both, self.both.sides
        mark, kept = self.chain.snapshot(), deepcopy((side.model, both.watcher, self.log))
        try:
            yield
        finally:
            self.chain.revert(mark)
            side.model, both.watcher, self.log = kept

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


class _Port:
    """The referee on a chain as a twin asks it.

    Attributes:
        outcome: what has come of the last call that was accepted.
    """

    def __init__(self, referee: Twin) -> None:
        self._referee = referee
        self.machine, self.address, self.arithmetic = self, referee.address, referee.arithmetic
        self.chain_id, self.view = referee.chain_id, referee.contract.call
        self.outcome = Outcome((), None)

    def balance(self, address: str) -> int:
        """Return a balance in wei."""
        return self._referee._get_balances()[address]

    def call(self, name: str, message: Message, args: Sequence[Any]) -> Result:
        """Make a call in a transaction; a refused one changes nothing."""
        referee, sender = self._referee, message.sender
        before, storage = referee._get_balances(), referee._get_storage()
        value = {"sender": sender, "value_wei": message.value_wei}
        try:
            self.outcome = ChainReferee.transact(referee, name, *args, **value)
        except Reverted as refusal:
            assert referee._get_storage() == storage
            after = referee._get_balances()
            fee_wei = before[sender] - after[sender]
            tip_wei = after[NOBODY] - before[NOBODY]
            # What is left of the fee above the base fee goes to whoever makes the block.
            assert tip_wei <= fee_wei
            return Result(b"", (), refusal.reason, fees={sender: fee_wei, NOBODY: -tip_wei})
        receipt = self.outcome.receipt
        assert receipt is not None
        fee_wei = receipt.gas_used * receipt.effective_gas_price
        tip_wei = fee_wei - referee._get_base_fee()
        return Result(b"", (), None, fees={sender: fee_wei, NOBODY: -tip_wei})

    def has_announced(self, result: Result, block: int, events: Sequence[Event]) -> bool:
        """Whether the events of the last call are those of the model."""
        del block
        return result.reason is not None or [*self.outcome.events] == [*events]


class _OnChain(RefereeTwin):
    """The twin of a referee on a chain, where others make calls in between, and calls cost fees."""

    def __init__(self, referee: Twin) -> None:
        self._referee, self._port = referee, _Port(referee)
        super().__init__(referee.watched, self._port)

    @property
    def outcome(self) -> Outcome:
        """What has come of the last call that was accepted."""
        return self._port.outcome

    @property
    def block(self) -> int:
        """The block of the next call."""
        return self._referee.chain.block_number() + 1

    @block.setter
    def block(self, number: int) -> None:
        missing = number - self.block
        assert missing >= 0, "that block is in the past"
        self._referee.chain.mine(missing)

    def play_model(
        self, side: Side[Any], name: str, message: Message, args: tuple[Any, ...]
    ) -> str | None:
        """Make a call of the model; what everybody has before it, the chain says."""
        self.balances = dict(self._referee._get_balances())
        reason = super().play_model(side, name, message, args)
        for event in self.events:
            self._referee.log[int(str(event.args[0]))].append(event)
        return reason

    def compare_job(self, job_id: int) -> None:
        """Compare every word that is remembered of a job, and the job as everybody reads it."""
        super().compare_job(job_id)
        assert self._referee.job(job_id) == self.store.jobs[job_id]
