"""The client's promise that a job's program, start and data can be had, and demands upon it.

A client bonds the promise. Whoever lacks a part of what the job commits to may demand it, with a
deposit, which pays whoever shows that part on the chain. A demand that is not answered in time
costs the client its bond. The referee knows nothing of all this, and no job waits for it.
"""

from collections.abc import Callable
from dataclasses import replace

from moot.contracts.model import answers
from moot.contracts.model.answers import (
    Promise,
    Subject,
    Vault,
    break_demand,
    get_own_job,
    get_promise,
    hash_subject,
    is_sound,
    make_call,
    pay,
    return_deposit,
)
from moot.contracts.model.checks import require
from moot.contracts.model.types import MAX_BLOCKS, PRIZE_DIVISOR, Event, Message
from moot.contracts.reasons import DemandStatus, PromiseStatus, Reason

MAX_PROMISE_BLOCKS = 4 * MAX_BLOCKS
"""For how long a client can promise, in blocks."""


def call(vault: Vault, name: str, message: Message, *args: object) -> tuple[Event, ...]:
    """Make one call and return its events.

    Raises:
        Revert: the call is refused; the vault is as it was.
    """
    return make_call(vault, name, message, args, CALLS, _PAYABLE)


def on_promise(
    vault: Vault,
    message: Message,
    subject: Subject,
    deposit_wei: int,
    answer_blocks: int,
    last_block: int,
) -> None:
    """Promise that whoever demands a part up to a block gets it; the value is the bond."""
    get_own_job(vault, message, subject)
    require(subject not in vault.promises, Reason.PROMISED)
    bond_wei = message.value_wei
    is_near = message.block <= last_block <= message.block + MAX_PROMISE_BLOCKS
    require(is_near and is_sound(bond_wei, deposit_wei, answer_blocks), Reason.ABSURD_PROMISE)
    found = Promise(message.sender, bond_wei, deposit_wei, answer_blocks, last_block)
    vault.promises[subject] = found
    sizes = (bond_wei, deposit_wei, answer_blocks, last_block)
    promise_id = hash_subject(subject)
    vault.events.append(Event("Promised", (promise_id, message.sender, subject, *sizes)))


def on_break_promise(
    vault: Vault, message: Message, subject: Subject, part: int, index: int, chunk: int
) -> None:
    """Say that a demand was not answered in time; anyone may, and the asker gets the prize."""
    promise, _ = break_demand(vault, message, (subject, part, index, chunk))
    lost_wei = promise.bond_wei - get_prize(promise)
    vault.balance_wei -= lost_wei
    vault.burned_wei += lost_wei


def on_reclaim(
    vault: Vault, message: Message, subject: Subject, part: int, index: int, chunk: int
) -> None:
    """Pay the sender what a broken promise owes it for its demand: the deposit, and the prize."""
    demand = return_deposit(vault, message, (subject, part, index, chunk))
    promise = get_promise(vault, subject)
    is_winner = demand.status is DemandStatus.UNANSWERED
    pay(vault, message, subject, promise.deposit_wei + is_winner * get_prize(promise))


def on_withdraw(vault: Vault, message: Message, subject: Subject) -> None:
    """Give the client its bond back, once nothing can be demanded any more and nothing is."""
    promise = get_promise(vault, subject)
    require(message.sender == promise.client, Reason.NOT_CLIENT)
    require(promise.status is PromiseStatus.KEPT, Reason.PROMISE_ENDED)
    require(message.block > promise.last_block, Reason.PROMISE_DUE)
    require(promise.open_demands == 0, Reason.STILL_DEMANDED)
    vault.promises[subject] = replace(promise, status=PromiseStatus.WITHDRAWN)
    pay(vault, message, subject, promise.bond_wei)


def get_prize(promise: Promise) -> int:
    """Return what the asker of a demand that was not answered gets of the bond, in wei."""
    return promise.bond_wei // PRIZE_DIVISOR


CALLS: dict[str, Callable[..., None]] = {
    **answers.CALLS,
    "promise": on_promise,
    "break_promise": on_break_promise,
    "reclaim": on_reclaim,
    "withdraw": on_withdraw,
}
_PAYABLE = answers.PAYABLE | {"promise"}
