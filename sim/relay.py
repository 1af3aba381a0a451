"""A proxy that passes every call on to a referee: the base class of proxies that watch calls."""

from collections.abc import Sequence
from typing import Any

from moot.contracts.model.types import Address, Claim, Event, Job, Member, Pair
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.referee.port import Answer, Call, Outcome, Referee
from moot.offchain.errors import Reverted


class Relay:
    """A referee that passes every call and question on; subclasses override what they intercept.

    Args:
        referee: the referee that gets the calls.
    """

    def __init__(self, referee: Referee) -> None:
        self.referee = referee

    @property
    def chain_id(self) -> int:
        """The number of the chain on which the referee is."""
        return self.referee.chain_id

    @property
    def address(self) -> Address:
        """The referee's address on its chain."""
        return self.referee.address

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic whose scalar operations the referee can compute."""
        return self.referee.arithmetic

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call."""
        return self.referee.transact(name, *args, sender=sender, value_wei=value_wei)

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls at once."""
        return self.referee.transact_all(calls)

    def block_gas(self) -> int:
        """Return how much gas a block has room for."""
        return self.referee.block_gas()

    def job(self, job_id: int) -> Job:
        """Return a job as it stands."""
        return self.referee.job(job_id)

    def member(self, job_id: int, address: Address) -> Member:
        """Return a member as it stands."""
        return self.referee.member(job_id, address)

    def claim(self, job_id: int, top: Digest) -> Claim | None:
        """Return the claim with this top, if anybody has shown it."""
        return self.referee.claim(job_id, top)

    def match(self, pair: Pair) -> Digest:
        """Return the digest of a match's position; ZERO if it is not being played."""
        return self.referee.match(pair)

    def debt(self, job_id: int, address: Address) -> int:
        """Return what a closed job owes an account, in wei."""
        return self.referee.debt(job_id, address)

    def commitment(self, job_id: int, sender: Address, top: Digest, salt: Digest) -> Digest:
        """Return the digest that hides a claim."""
        return self.referee.commitment(job_id, sender, top, salt)

    def events(self, job_id: int) -> Sequence[Event]:
        """Return what has been announced of a job, in order."""
        return self.referee.events(job_id)

    def block_number(self) -> int:
        """Return the number of the latest block."""
        return self.referee.block_number()

    def mine(self, blocks: int) -> None:
        """Let time pass."""
        self.referee.mine(blocks)

    def balance(self, address: Address) -> int:
        """Return an account's balance in wei."""
        return self.referee.balance(address)


def read_cost(answer: Answer) -> tuple[int, int]:
    """Return the gas that a call has used, and what was paid for it in wei; nothing on a model."""
    if isinstance(answer, Outcome) and answer.receipt is not None:
        receipt = answer.receipt
        return receipt.gas_used, receipt.gas_used * receipt.effective_gas_price
    return (answer.gas_used, answer.fee_wei) if isinstance(answer, Reverted) else (0, 0)
