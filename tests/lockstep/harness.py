"""Sends every call to the model and to the contract, and compares all that can be seen of them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import Any, cast

import pytest

from contracts.model.checks import compute_position, is_challengers_turn
from contracts.model.moves import get_time_left
from contracts.model.referee import call
from contracts.model.types import NOBODY, Event, Job, Match, Member, Message, Opening, Store
from contracts.reasons import Phase, Reason, Revert, Standing
from offchain.chain import Address, Chain, Contract
from offchain.commitments.tags import CHUNK_BYTES
from offchain.commitments.tree import Digest
from offchain.errors import Reverted
from offchain.programs.encoding import MAX_NODE_BYTES

Frozen = tuple[Any, ...]


class Lockstep:
    """A referee of which there are two: the Python model and the contract on a chain.

    A block of the chain holds one transaction, so a call's block is known before it is sent.
    `gas` collects the gas of accepted calls by their names; `watched` are the addresses that can
    hold value: the accounts, the contract, the zero address, and what a test adds.
    """

    def __init__(self, chain: Chain, contract: Contract, gas: dict[str, list[int]]) -> None:
        self.chain = chain
        self.contract = contract
        self.gas = gas
        self.store = Store(chain.chain_id, contract.address)
        self.watched: list[str] = [*chain.accounts, contract.address, NOBODY]
        self.balances = self._get_balances()

    def call(self, name: str, sender: str, *args: Any, value_wei: int = 0) -> tuple[Event, ...]:
        """Make a call on both, compare them, and return the events.

        Raises:
            Revert: both refuse the call, for the same reason.
        """
        message = Message(sender, value_wei, self.chain.block_number() + 1)
        before, balances = freeze(self.store), self.balances
        try:
            events = call_model(self.store, name, message, args)
        except Revert as refusal:
            assert freeze(self.store) == before, "a refused call has changed the model"
            self._refuse(name, message, *args, reason=refusal.reason)
            raise
        receipt = self.contract.transact(
            name, *map(encode, args), sender=Address(sender), value=value_wei
        )
        assert receipt.block == message.block
        assert tuple(Event(e.name, tuple(e.args.values())) for e in receipt.events) == events
        self.gas.setdefault(name, []).append(receipt.gas_used)
        paid_wei = self.store.paid_wei.get(sender, 0) - dict(before[-1]).get(sender, 0)
        burned_wei = self.store.burned_wei - before[-2]
        fee_wei = receipt.gas_used * receipt.effective_gas_price
        tip_wei = fee_wei - self._compare_supply()
        assert self.balances == balances | {
            sender: balances[sender] - value_wei - fee_wei + paid_wei,
            NOBODY: balances[NOBODY] + burned_wei + tip_wei,
            self.contract.address: self.store.balance_wei,
        }
        self._compare_after(name, sender, args)
        return events

    def _compare_after(self, name: str, sender: str, args: tuple[Any, ...]) -> None:
        """Compare the job that a call was about, and what is owed to all that it may pay."""
        if name == "withdraw":
            assert self.contract.call("credits_wei", sender) == 0
            return
        job_id = len(self.store.jobs) - 1 if name == "open_job" else args[0]
        job = self.store.jobs[job_id]
        self._compare_job(job_id, {sender, job.client, *(m.address for m in job.members)})

    def refused(self, name: str, sender: str, *args: Any, value_wei: int = 0) -> str:
        """Make a call that both must refuse, and return the reason."""
        try:
            self.call(name, sender, *args, value_wei=value_wei)
        except Revert as refusal:
            return refusal.reason
        raise AssertionError(f"{name} was accepted")

    def attempt(self, name: str, sender: str, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call and forget what it did, if it did anything; return the reason if it did not.

        The block that a refused call is in stays.
        """
        rehearsal = Store(self.store.chain_id, self.store.address)
        thaw(rehearsal, freeze(self.store))
        message = Message(sender, value_wei, self.chain.block_number() + 1)
        try:
            call_model(rehearsal, name, message, args)
        except Revert:
            return self.refused(name, sender, *args, value_wei=value_wei)
        with self.branch():
            self.call(name, sender, *args, value_wei=value_wei)
        return None

    def _refuse(self, name: str, message: Message, *args: Any, reason: str) -> None:
        sender, value_wei = Address(message.sender), message.value_wei
        with pytest.raises(Reverted) as refusal:
            self.contract.transact(name, *map(encode, args), sender=sender, value=value_wei)
        assert refusal.value.reason == reason, (name, args)
        self._compare_supply()

    def position(self, job_id: int) -> Digest:
        """Return the position of the match that a job is playing."""
        match = self.store.jobs[job_id].match
        assert match is not None
        return compute_position(self.store, job_id, match)

    def mine_to(self, block: int) -> None:
        """Let the chain grow so that the next call is in this block."""
        missing = block - 1 - self.chain.block_number()
        assert missing >= 0, "that block is in the past"
        self.chain.mine(missing)

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Let the world go on, and then bring it back to where it was."""
        mark, before, balances = self.chain.snapshot(), freeze(self.store), self.balances
        try:
            yield
        finally:
            self.chain.revert(mark)
            thaw(self.store, before)
            self.balances = balances

    def watch(self, address: str) -> None:
        """Count what an address holds among the supply."""
        self.watched.append(address)
        self.balances = self._get_balances()

    def compare_all(self) -> None:
        """Compare everything that the two remember."""
        assert self.contract.call("job_count") == len(self.store.jobs)
        for job_id in range(len(self.store.jobs)):
            self._compare_job(job_id, self.watched)

    def _compare_job(self, job_id: int, accounts: Iterable[str]) -> None:
        """Compare a job, and what is owed to some accounts."""
        job, block = self.store.jobs[job_id], self.chain.block_number()
        expected: dict[tuple[str, Any], Any] = {
            ("get_job", job_id): show_job(job),
            ("get_members", job_id): tuple(map(show_member, job.members)),
        }
        if job.match is not None:
            expected["get_match", job_id] = show_match(job, job.match, block)
            expected["position", job_id] = self.position(job_id)
        for account in accounts:
            expected["credits_wei", account] = self.store.credits_wei.get(account, 0)
        assert self._view(*expected) == expected

    def _view(self, *calls: tuple[str, Any]) -> dict[tuple[str, Any], Any]:
        """Return what several views of one argument say, faster than one after the other."""
        codec: Any = cast("Any", self.contract)._codec
        to = bytes.fromhex(self.contract.address[2:])
        vm, seen = self._get_vm(), {}
        for name, argument in calls:
            computation = vm.execute_bytecode(
                origin=bytes(20),
                gas_price=0,
                gas=10**7,
                to=to,
                sender=bytes(20),
                value=0,
                data=codec.encode_call(name, (argument,)),
                code=vm.state.get_code(to),
            )
            assert not computation.is_error, name
            seen[name, argument] = codec.decode_result(name, (argument,), computation.output)
        return seen

    def _get_vm(self) -> Any:
        """Return the virtual machine as it is after the latest block."""
        chain = cast("Any", self.chain.node)._chain
        return chain.get_vm(chain.get_canonical_head())

    def _get_balances(self) -> dict[str, int]:
        state = self._get_vm().state
        return {a: state.get_balance(bytes.fromhex(a[2:])) for a in self.watched}

    def _compare_supply(self) -> int:
        """Check that the last block has lost its base fee only, and return that."""
        header = cast("Any", self.chain.node)._chain.get_canonical_head()
        fee_wei = int(header.base_fee_per_gas * header.gas_used)
        before_wei, self.balances = sum(self.balances.values()), self._get_balances()
        assert sum(self.balances.values()) == before_wei - fee_wei, "value was made or lost"
        return fee_wei


def encode(value: Any) -> Any:
    """Return an argument of the model as the contract's ABI takes it."""
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return astuple(value) if hasattr(value, "__dataclass_fields__") else value


def call_model(
    store: Store, name: str, message: Message, args: tuple[Any, ...]
) -> tuple[Event, ...]:
    """Make a call on the model, unless the contract's ABI has no room for its arguments."""
    if not fits(name, args):
        raise Revert(Reason.NO_REASON)
    return call(store, name, message, *args)


def fits(name: str, args: Sequence[Any]) -> bool:
    """Whether the contract's ABI has room for the arguments; it refuses others without a word."""
    for argument in args:
        if isinstance(argument, bytes) and len(argument) > _MAX_BYTES.get(name, 32):
            return False
        if isinstance(argument, list | tuple) and len(argument) > _MAX_ITEMS.get(name, 56):
            return False
        if name == "leaf" and isinstance(argument, list | tuple):
            openings = [cast("Opening", o) for o in argument]
            if any(len(o.header) > 66 or len(o.chunk) > CHUNK_BYTES for o in openings):
                return False
            if any(len(p) > 56 for o in openings for p in (o.chunk_proof, o.root_proof)):
                return False
    return True


_MAX_BYTES = {
    "open_chunk": CHUNK_BYTES,
    "pick_element": CHUNK_BYTES,
    "open_fold": 504,
    "pick_segment": 504,
    **dict.fromkeys(("enter_operator", "leaf", "refer"), MAX_NODE_BYTES),
}
_MAX_ITEMS = {"open": 16, "pick": 5, "leaf": 8}


def freeze(store: Store) -> Frozen:
    """Return all that the model remembers, but for the last call's events."""
    return (
        tuple(store.jobs),
        tuple(store.credits_wei.items()),
        store.balance_wei,
        store.burned_wei,
        tuple(store.paid_wei.items()),
    )


def thaw(store: Store, frozen: Frozen) -> None:
    """Bring the model back to what it remembered."""
    jobs, credits_wei, store.balance_wei, store.burned_wei, paid_wei = frozen
    store.jobs, store.credits_wei, store.paid_wei = list(jobs), dict(credits_wei), dict(paid_wei)


def show_job(job: Job) -> tuple[Any, ...]:
    """Return what the contract's `get_job` says of a job."""
    return (
        job.client,
        astuple(job.terms),
        job.reward_wei,
        job.opened_block,
        job.matches,
        job.match is not None,
        job.is_settled,
    )


def show_member(member: Member) -> tuple[Any, ...]:
    """Return what the contract's `get_members` says: a claim takes its commitment's place."""
    is_hidden = member.standing is Standing.COMMITTED
    return member.address, member.standing, member.digest if is_hidden else member.top


def show_match(job: Job, match: Match, block: int) -> tuple[Any, ...]:
    """Return what the contract's `get_match` says in a block: clocks as they stand in it.

    While the verifier is asked, the defender's clock is the verifier's.
    """
    left = max(get_time_left(job, match, block), 0)
    if is_challengers_turn(match):
        return astuple(replace(match, challenger_clock=left, since=block))
    since = match.since if match.phase is Phase.VERIFIER else block
    return astuple(replace(match, defender_clock=left, since=since))
