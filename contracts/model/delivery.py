"""The premium of a job, which is paid for handing its result over.

The client bonds the premium. Once a claim has won, those who share the reward show which state that
claim ends with, and promise by that that the state can be had: for a window anybody may demand
chunks of it. If all that was demanded has been shown, those who promised take equal parts of the
premium; else the client takes it back. The referee knows nothing of all this.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from moot.contracts.model import answers
from moot.contracts.model.answers import (
    Promise,
    Proof,
    Subject,
    Vault,
    break_demand,
    get_job,
    get_own_job,
    get_promise,
    hash_subject,
    is_sound,
    make_call,
    pay,
    return_deposit,
)
from moot.contracts.model.checks import get_member, require
from moot.contracts.model.types import MAX_BLOCKS, Address, Event, Job, Message
from moot.contracts.model.words import hash_top
from moot.contracts.reasons import PremiumStatus, PromiseStatus, Reason, Standing, Status
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, is_member


@dataclass(frozen=True, slots=True)
class Premium:
    """A premium; `last_block` is the last to promise the result, once it was called for."""

    client: Address
    premium_wei: int
    deposit_wei: int
    answer_blocks: int
    window_blocks: int
    last_block: int = 0
    status: PremiumStatus = PremiumStatus.OFFERED


@dataclass
class Deliveries(Vault):
    """Everything that the contract remembers.

    A premium is found by the job's subject, and what is promised by the result's. `shares` are
    those who have promised a result and have not taken their part yet.
    """

    premiums: dict[Subject, Premium] = field(default_factory=dict)
    shares: set[tuple[Subject, Address]] = field(default_factory=set)


def call(vault: Deliveries, name: str, message: Message, *args: object) -> tuple[Event, ...]:
    """Make one call and return its events.

    Raises:
        Revert: the call is refused; the vault is as it was.
    """
    return make_call(vault, name, message, args, CALLS, _PAYABLE)


def on_offer(
    vault: Deliveries,
    message: Message,
    subject: Subject,
    deposit_wei: int,
    answer_blocks: int,
    window_blocks: int,
) -> None:
    """Bond a premium on the result of a job that is open; the value is the premium."""
    job = get_own_job(vault, message, subject)
    require(job.status is Status.OPEN, Reason.PREMIUM_TOO_LATE)
    require(subject not in vault.premiums, Reason.OFFERED)
    premium_wei = message.value_wei
    has_window = 1 <= window_blocks <= MAX_BLOCKS
    require(has_window and is_sound(premium_wei, deposit_wei, answer_blocks), Reason.ABSURD_PREMIUM)
    sizes = (premium_wei, deposit_wei, answer_blocks, window_blocks)
    vault.premiums[subject] = Premium(message.sender, *sizes)
    premium_id = hash_subject(subject)
    vault.events.append(Event("Offered", (premium_id, message.sender, subject, *sizes)))


def on_call_for(vault: Deliveries, message: Message, subject: Subject) -> None:
    """Call for the result of a job that is won, which nobody has promised yet; anyone may."""
    premium = _get_offered(vault, subject)
    require(premium.last_block == 0, Reason.CALLED_FOR)
    _get_won(vault, subject)
    last_block = message.block + premium.window_blocks
    vault.premiums[subject] = replace(premium, last_block=last_block)
    vault.events.append(Event("Called", (hash_subject(subject), last_block)))


def on_register(
    vault: Deliveries,
    message: Message,
    subject: Subject,
    top: Digest,
    state_root: Digest,
    proof: Proof,
) -> None:
    """Promise the result of a job that is won; for whoever shares its reward, and has not yet."""
    premium = vault.premiums.get(subject)
    is_there = premium is not None and premium.status is not PremiumStatus.WITHDRAWN
    require(is_there, Reason.NO_SUCH_PREMIUM)
    assert premium is not None, "it was required"
    job = _get_won(vault, subject)
    member = get_member(vault.referees[subject.referee], subject.job_id, message.sender)
    require(member.standing is Standing.REVEALED, Reason.NOT_SHARER)
    count = job.terms.checkpoints
    is_shown = hash_top(top) == member.key and is_member(
        Tag.HISTORY_NODE, top, state_root, count - 1, count, proof
    )
    require(is_shown, Reason.NOT_SHOWN)
    result, last_block = make_result(subject, state_root), premium.last_block
    share = (result, message.sender)
    require(share not in vault.shares, Reason.REGISTERED)
    if premium.status is PremiumStatus.OFFERED:
        require(last_block == 0 or message.block <= last_block, Reason.PROMISE_PAST)
        require(result not in vault.promises, Reason.PROMISED)
        last_block = message.block + premium.window_blocks
        sizes = (premium.premium_wei, premium.deposit_wei, premium.answer_blocks, last_block)
        promised = replace(premium, last_block=0, status=PremiumStatus.PROMISED)
        vault.premiums[subject] = promised
        vault.promises[result] = Promise(premium.client, *sizes, sharers=1)
    else:
        promise = get_promise(vault, result)
        last_block = promise.last_block
        require(promise.status is PromiseStatus.KEPT, Reason.PROMISE_ENDED)
        require(message.block <= last_block, Reason.PROMISE_PAST)
        vault.promises[result] = replace(promise, sharers=promise.sharers + 1)
    vault.shares.add(share)
    said = (hash_subject(subject), message.sender, state_root, last_block)
    vault.events.append(Event("Registered", said))


def on_break_promise(
    vault: Deliveries, message: Message, subject: Subject, part: int, index: int, chunk: int
) -> None:
    """Say that a demand was not answered in time; anyone may. The premium is the client's again."""
    break_demand(vault, message, (subject, part, index, chunk))


def on_reclaim(
    vault: Deliveries, message: Message, subject: Subject, part: int, index: int, chunk: int
) -> None:
    """Pay the sender the deposit of its demand upon a promise that was broken."""
    return_deposit(vault, message, (subject, part, index, chunk))
    pay(vault, message, subject, get_promise(vault, subject).deposit_wei)


def on_take(vault: Deliveries, message: Message, subject: Subject) -> None:
    """Pay the sender its part of a premium, or the client all of it if the promise is broken."""
    promise, share = get_promise(vault, subject), (subject, message.sender)
    if promise.status is PromiseStatus.BROKEN:
        is_owed = message.sender == promise.client and promise.bond_wei != 0
        require(is_owed, Reason.NO_SHARE)
        part_wei, sharers = promise.bond_wei, promise.sharers
    else:
        require(share in vault.shares, Reason.NO_SHARE)
        require(message.block > promise.last_block, Reason.PROMISE_DUE)
        require(promise.open_demands == 0, Reason.STILL_DEMANDED)
        vault.shares.remove(share)
        # What is left is divided by those who are left, the sender among them: nothing remains.
        part_wei, sharers = promise.bond_wei // promise.sharers, promise.sharers - 1
    left = replace(promise, bond_wei=promise.bond_wei - part_wei, sharers=sharers)
    vault.promises[subject] = left
    pay(vault, message, subject, part_wei)


def on_withdraw(vault: Deliveries, message: Message, subject: Subject) -> None:
    """Give the client a premium back for which there is no result, or which nobody has promised."""
    premium = _get_offered(vault, subject)
    require(message.sender == premium.client, Reason.NOT_CLIENT)
    job = get_job(vault, subject)
    assert job is not None, "there is a premium"
    is_past = premium.last_block != 0 and message.block > premium.last_block
    is_due = job.status is not Status.OPEN and (job.status is not Status.WON or is_past)
    require(is_due, Reason.PROMISE_DUE)
    vault.premiums[subject] = replace(premium, status=PremiumStatus.WITHDRAWN)
    pay(vault, message, subject, premium.premium_wei)


def make_result(subject: Subject, state_root: Digest) -> Subject:
    """Return what is promised of a job's result: a state, and nothing else can be demanded."""
    return replace(subject, operators=0, batch_slots=0, steps=0, start_root=state_root)


def _get_offered(vault: Deliveries, subject: Subject) -> Premium:
    """Return the premium of a result that nobody has promised."""
    premium = vault.premiums.get(subject)
    is_offered = premium is not None and premium.status is PremiumStatus.OFFERED
    require(is_offered, Reason.NO_SUCH_PREMIUM)
    assert premium is not None, "it was required"
    return premium


def _get_won(vault: Deliveries, subject: Subject) -> Job:
    """Return the job of a subject, which has been won."""
    job = get_job(vault, subject)
    assert job is not None, "there is a premium"
    require(job.status is Status.WON, Reason.NOT_WON)
    return job


CALLS: dict[str, Callable[..., None]] = {
    **answers.CALLS,
    "offer": on_offer,
    "call_for": on_call_for,
    "register": on_register,
    "break_promise": on_break_promise,
    "reclaim": on_reclaim,
    "take": on_take,
    "withdraw": on_withdraw,
}
_PAYABLE = answers.PAYABLE | {"offer"}
