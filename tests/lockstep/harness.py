"""Sends every call to the model and to the contract, and compares all that can be seen of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any

from contracts.model.checks import compute_position
from contracts.model.referee import call
from contracts.model.types import NOBODY, Event, Job, Match, Member, Message, Store
from contracts.reasons import Reason, Revert, Standing
from offchain.chain import Address, Chain, Contract
from offchain.commitments.tree import Digest
from offchain.errors import Reverted

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
        self.watched = [*chain.accounts, contract.address, Address(NOBODY)]
        self._supply_wei = self._count_supply()

    def call(self, name: str, sender: str, *args: Any, value_wei: int = 0) -> tuple[Event, ...]:
        """Make a call on both, compare them, and return the events.

        Raises:
            Revert: both refuse the call, for the same reason.
        """
        message = Message(sender, value_wei, self.chain.block_number() + 1)
        before, balances = freeze(self.store), self._get_balances(sender)
        try:
            events = call(self.store, name, message, *args)
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
        fee_wei = receipt.gas_used * receipt.effective_gas_price
        paid_wei = self.store.paid_wei.get(sender, 0) - dict(before[-1]).get(sender, 0)
        burned_wei = self.store.burned_wei - before[-2]
        tip_wei = fee_wei - self._compare_supply()
        sender_wei, zero_wei = self._get_balances(sender)
        assert sender_wei == balances[0] - value_wei - fee_wei + paid_wei
        assert zero_wei == balances[1] + burned_wei + tip_wei
        assert self.chain.balance(self.contract.address) == self.store.balance_wei
        self.compare_state()
        return events

    def refused(self, name: str, sender: str, *args: Any, value_wei: int = 0) -> Reason:
        """Make a call that both must refuse, and return the reason."""
        try:
            self.call(name, sender, *args, value_wei=value_wei)
        except Revert as refusal:
            return refusal.reason
        raise AssertionError(f"{name} was accepted")

    def _refuse(self, name: str, message: Message, *args: Any, reason: Reason) -> None:
        try:
            self.contract.transact(
                name, *map(encode, args), sender=Address(message.sender), value=message.value_wei
            )
        except Reverted as refusal:
            assert refusal.reason == reason, (name, args)
            self._compare_supply()
        else:
            raise AssertionError(f"only the model refuses {name}: {reason}")

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
        mark, before, supply_wei = self.chain.snapshot(), freeze(self.store), self._supply_wei
        try:
            yield
        finally:
            self.chain.revert(mark)
            thaw(self.store, before)
            self._supply_wei = supply_wei

    def compare_state(self) -> None:
        """Compare everything that the two remember."""
        jobs = self.store.jobs
        assert self.contract.call("job_count") == len(jobs)
        for job_id in range(len(jobs)):
            self._compare_job(job_id, jobs[job_id])
        for account in self.watched:
            owed_wei = self.store.credits_wei.get(account, 0)
            assert self.contract.call("credits_wei", account) == owed_wei

    def _compare_job(self, job_id: int, job: Job) -> None:
        assert self.contract.call("get_job", job_id) == show_job(job)
        assert self.contract.call("get_members", job_id) == tuple(map(show_member, job.members))
        if job.match is not None:
            assert self.contract.call("get_match", job_id) == show_match(job.match)
            assert self.contract.call("position", job_id) == self.position(job_id)

    def _get_balances(self, sender: str) -> tuple[int, int]:
        return self.chain.balance(Address(sender)), self.chain.balance(Address(NOBODY))

    def _compare_supply(self) -> int:
        """Check that the last block has lost its base fee only, and return that."""
        header: Any = self.chain.node._chain.get_canonical_head()  # type: ignore[attr-defined]  # noqa: E501
        fee_wei = int(header.base_fee_per_gas * header.gas_used)
        supply_wei = self._count_supply()
        assert supply_wei == self._supply_wei - fee_wei, "value was made or lost"
        self._supply_wei = supply_wei
        return fee_wei

    def _count_supply(self) -> int:
        return sum(map(self.chain.balance, self.watched))


def encode(value: Any) -> Any:
    """Return an argument of the model as the contract's ABI takes it."""
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return astuple(value) if hasattr(value, "__dataclass_fields__") else value


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


def show_match(match: Match) -> tuple[Any, ...]:
    """Return what the contract's `get_match` says of a match."""
    return astuple(match)
