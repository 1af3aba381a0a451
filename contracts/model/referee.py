"""The calls of the referee: jobs, bonds, claims and payouts. `moves.py` has the moves of a match.

A handler `on_<call>` takes the store, the message and the call's arguments. A failed check raises
`Revert`, and the call has then changed nothing: `call` sees to that for every handler alike.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace

from contracts.model import moves
from contracts.model.checks import get_job, require
from contracts.model.ledger import burn, credit, put_job
from contracts.model.types import (
    MAX_BLOCKS,
    MAX_MEMBERS,
    MAX_OPERATORS,
    MAX_SLOTS,
    MAX_STEPS,
    MIN_BOND_WEI,
    ZERO,
    Event,
    Job,
    Match,
    Member,
    Message,
    Store,
    Terms,
)
from contracts.reasons import LeafMode, Phase, Reason, Revert, Standing
from offchain.commitments.keccak import keccak256
from offchain.commitments.tags import Tag
from offchain.commitments.tree import Digest, get_height, hash_root
from offchain.programs.roots import ProgramHeader


def call(store: Store, name: str, message: Message, *args: object) -> tuple[Event, ...]:
    """Make one call and return its events.

    Raises:
        Revert: the call is refused; the store is as it was.
    """
    before = copy(store)
    before.jobs, before.credits_wei = list(store.jobs), dict(store.credits_wei)
    before.paid_wei = dict(store.paid_wei)
    store.events = []
    try:
        store.balance_wei += message.value_wei
        require(message.value_wei == 0 or name in _PAYABLE, Reason.NO_REASON)
        CALLS[name](store, message, *args)
    except Revert:
        for field in Store.__slots__:
            setattr(store, field, getattr(before, field))
        raise
    return tuple(store.events)


def compute_commitment(store: Store, job_id: int, sender: str, top: Digest, salt: Digest) -> Digest:
    """Return the digest that a provider posts before it reveals its claim.

    It binds the chain, the referee, the job and the sender, so that nobody can copy or replay it.
    """
    words = (Tag.CLAIM, store.chain_id, int(store.address, 16), job_id, int(sender, 16))
    return keccak256(b"".join(word.to_bytes(32, "big") for word in words) + top + salt)


def on_open_job(store: Store, message: Message, terms: Terms) -> None:
    """Open a job; the value is the reward, shared by the members of the winning claim."""
    require(terms.bond_wei >= MIN_BOND_WEI, Reason.BOND_TOO_SMALL)
    require(are_terms_sound(terms), Reason.ABSURD_TERMS)
    job_id = len(store.jobs)
    store.jobs.append(Job(message.sender, terms, message.value_wei, message.block))
    header = ProgramHeader(
        terms.operators, terms.state_slots, terms.batch_slots, terms.layout, terms.program_top
    )
    store.events.append(Event("JobOpened", (job_id, message.sender, header.root)))


def are_terms_sound(terms: Terms) -> bool:
    """Whether all counts, windows and clocks are within their bounds."""
    windows = (terms.commit_blocks, terms.reveal_blocks, terms.clock_blocks)
    return (
        1 <= terms.state_slots <= MAX_SLOTS
        and terms.batch_slots <= MAX_SLOTS
        and terms.state_slots <= terms.operators <= MAX_OPERATORS
        and 1 <= terms.steps <= MAX_STEPS
        and 1 <= terms.checkpoint_every <= terms.steps
        and terms.leaf_mode in tuple(LeafMode)
        and all(1 <= window <= MAX_BLOCKS for window in windows)
        and terms.increment_blocks <= terms.clock_blocks
    )


def on_commit(store: Store, message: Message, job_id: int, digest: Digest) -> None:
    """Join a job with a bond and a hidden claim."""
    job = get_job(store, job_id)
    require(not job.is_settled, Reason.SETTLED)
    require(message.block <= job.commit_deadline, Reason.TOO_LATE)
    require(message.value_wei == job.terms.bond_wei, Reason.WRONG_BOND)
    require(len(job.members) < MAX_MEMBERS, Reason.FULL)
    require(all(m.address != message.sender for m in job.members), Reason.ALREADY_JOINED)
    member = Member(message.sender, digest)
    put_job(store, job_id, replace(job, members=(*job.members, member)))
    store.events.append(Event("Committed", (job_id, len(job.members), message.sender)))


def on_reveal(store: Store, message: Message, job_id: int, top: Digest, salt: Digest) -> None:
    """Show the claim that was committed to: the top of the history tree."""
    job = get_job(store, job_id)
    require(message.block > job.commit_deadline, Reason.TOO_EARLY)
    require(message.block <= job.reveal_deadline, Reason.TOO_LATE)
    digest = compute_commitment(store, job_id, message.sender, top, salt)
    for seat, member in enumerate(job.members):
        if member.address == message.sender and member.standing is Standing.COMMITTED:
            require(member.digest == digest, Reason.NOT_COMMITTED)
            shown = replace(member, top=top, standing=Standing.REVEALED)
            members = (*job.members[:seat], shown, *job.members[seat + 1 :])
            put_job(store, job_id, replace(job, members=members))
            root = hash_root(Tag.HISTORY_ROOT, job.terms.checkpoints, top)
            store.events.append(Event("Revealed", (job_id, seat, root)))
            return
    raise Revert(Reason.NOT_COMMITTED)


def get_contenders(job: Job) -> list[int]:
    """Return the seats of the members that have shown a claim and have not been defeated."""
    return [i for i, m in enumerate(job.members) if m.standing is Standing.REVEALED]


def get_rivals(job: Job) -> tuple[int, int] | None:
    """Return the next defender and challenger: the first contender, and the first who differs."""
    contenders = get_contenders(job)
    if contenders:
        first = contenders[0]
        for seat in contenders:
            if job.members[seat].top != job.members[first].top:
                return first, seat
    return None


def on_start_match(store: Store, message: Message, job_id: int) -> None:
    """Begin the next dispute; anyone may."""
    job = get_job(store, job_id)
    require(not job.is_settled, Reason.SETTLED)
    require(message.block > job.reveal_deadline, Reason.TOO_EARLY)
    require(job.match is None, Reason.MATCH_ACTIVE)
    rivals = get_rivals(job)
    if rivals is None:
        raise Revert(Reason.NO_DISPUTE)
    clock = job.terms.clock_blocks
    top, count = job.members[rivals[0]].top, job.terms.checkpoints
    match = Match(
        job.matches,
        *rivals,
        clock,
        clock,
        since=message.block,
        phase=Phase.HISTORY,
        node=top,
        level=get_height(count),
        count=count,
    )
    put_job(store, job_id, replace(job, matches=job.matches + 1, match=match))
    store.events.append(Event("MatchStarted", (job_id, match.number, *rivals)))


def on_settle(store: Store, message: Message, job_id: int) -> None:
    """Pay the members of the one claim that is left, or the client when none is; anyone may."""
    job = get_job(store, job_id)
    require(not job.is_settled, Reason.SETTLED)
    require(message.block > job.reveal_deadline, Reason.TOO_EARLY)
    require(job.match is None, Reason.MATCH_ACTIVE)
    require(get_rivals(job) is None, Reason.STILL_DISPUTED)
    seats = get_contenders(job)
    share = job.reward_wei // len(seats) if seats else 0
    for seat in seats:
        credit(store, job.members[seat].address, job.terms.bond_wei + share)
    credit(store, job.client, job.reward_wei - share * len(seats))
    burn_hidden(store, job)
    put_job(store, job_id, replace(job, is_settled=True))
    top = job.members[seats[0]].top if seats else ZERO
    root = hash_root(Tag.HISTORY_ROOT, job.terms.checkpoints, top) if seats else ZERO
    store.events.append(Event("Settled", (job_id, root, len(seats))))


def burn_hidden(store: Store, job: Job) -> None:
    """Burn the bonds of those who never showed their claim."""
    hidden = sum(m.standing is Standing.COMMITTED for m in job.members)
    burn(store, hidden * job.terms.bond_wei)


def on_withdraw(store: Store, message: Message) -> None:
    """Pay the sender what it is owed."""
    owed = store.credits_wei.pop(message.sender, 0)
    require(owed > 0, Reason.NOTHING_OWED)
    store.balance_wei -= owed
    store.paid_wei[message.sender] = store.paid_wei.get(message.sender, 0) + owed
    store.events.append(Event("Withdrawn", (message.sender, owed)))


CALLS: dict[str, Callable[..., None]] = {
    "open_job": on_open_job,
    "commit": on_commit,
    "reveal": on_reveal,
    "start_match": on_start_match,
    "settle": on_settle,
    "withdraw": on_withdraw,
    **moves.MOVES,
}
_PAYABLE = frozenset({"open_job", "commit"})
