"""The calls around the matches: who joins with which claim, who meets whom, who is paid.

Claims are knocked out. Two that meet send their members against each other, all pairs in parallel
if anybody wants; a member is defeated by any match that it loses, and a claim is out when it has no
contender left and the window is over in which anybody could have joined it.
"""

from dataclasses import replace

from moot.contracts.model.checks import (
    find_claim,
    get_claim,
    get_contender,
    get_job,
    get_member,
    get_open_job,
    is_free,
    is_rival,
    put_claim,
    require,
)
from moot.contracts.model.ledger import calculate_debt, close_job
from moot.contracts.model.turns import start
from moot.contracts.model.types import (
    KEY_BYTES,
    Address,
    Claim,
    Event,
    Job,
    Member,
    Message,
    Pair,
    Store,
)
from moot.contracts.model.words import hash_commitment, hash_job, hash_top
from moot.contracts.reasons import Reason, Revert, Standing, Status
from moot.offchain.commitments.tree import Digest


def on_commit(
    store: Store, message: Message, job_id: int, digest: Digest, terms_digest: int
) -> None:
    """Join a job that has these terms, with a bond and a hidden claim."""
    job = get_open_job(store, job_id)
    require(message.block <= job.commit_deadline, Reason.TOO_LATE)
    _require_new(store, message, job_id, job, terms_digest)
    member = Member(Standing.COMMITTED, digest[:KEY_BYTES])
    store.put(store.members, (job_id, message.sender), member)
    store.put(store.jobs, job_id, replace(job, hidden=job.hidden + 1))
    store.events.append(Event("Committed", (job_id, message.sender)))


def _require_new(store: Store, message: Message, job_id: int, job: Job, terms_digest: int) -> None:
    """Refuse whoever means another job, has joined already, or does not bring the bond."""
    require(hash_job(job) == terms_digest, Reason.OTHER_TERMS)
    require(message.value_wei == job.terms.bond_wei, Reason.WRONG_BOND)
    member = get_member(store, job_id, message.sender)
    require(member.standing is Standing.NONE, Reason.ALREADY_JOINED)


def on_reveal(store: Store, message: Message, job_id: int, top: Digest, salt: Digest) -> None:
    """Show the claim that was committed to: the top of the history tree."""
    job = get_open_job(store, job_id)
    require(message.block > job.commit_deadline, Reason.TOO_EARLY)
    require(message.block <= job.reveal_deadline, Reason.TOO_LATE)
    member = get_member(store, job_id, message.sender)
    digest = hash_commitment(store, job_id, message.sender, top, salt)
    is_own = member.standing is Standing.COMMITTED and member.key == digest[:KEY_BYTES]
    require(is_own, Reason.NOT_COMMITTED)
    claim = find_claim(store, job_id, top)
    put_claim(store, job_id, _count_in(claim or Claim(top), shares=True))
    claims = job.claims + (claim is None)
    store.put(store.jobs, job_id, replace(job, hidden=job.hidden - 1, claims=claims))
    _show(store, job_id, message.sender, top, Standing.REVEALED)


def _count_in(claim: Claim, *, shares: bool) -> Claim:
    """Return a claim with one more contender."""
    contenders, sharers = claim.contenders + 1, claim.sharers + shares
    return replace(claim, contenders=contenders, sharers=sharers)


def _show(store: Store, job_id: int, sender: Address, top: Digest, standing: Standing) -> None:
    store.put(store.members, (job_id, sender), Member(standing, hash_top(top)))
    store.events.append(Event("Claimed", (job_id, sender, top)))


def on_join(store: Store, message: Message, job_id: int, top: Digest, terms_digest: int) -> None:
    """Join a job that has these terms late, with a claim of one's own or behind a disputed one.

    Whoever joins late gets prizes, but no share of the reward, so that nobody gains by copying the
    call.
    """
    job = get_open_job(store, job_id)
    require(message.block > job.reveal_deadline, Reason.TOO_EARLY)
    claim = find_claim(store, job_id, top)
    is_meeting = claim is not None and claim.meeting != 0
    end = claim.window_end if claim and is_meeting else get_challenge_deadline(job)
    require(message.block <= end, Reason.TOO_LATE)
    _require_new(store, message, job_id, job, terms_digest)
    revived = claim is None or claim.contenders == 0
    put_claim(store, job_id, _count_in(claim or Claim(top), shares=False))
    store.put(store.jobs, job_id, replace(job, claims=job.claims + revived))
    _show(store, job_id, message.sender, top, Standing.LATE)


def get_challenge_deadline(job: Job) -> int:
    """Return the last block in which a claim that has met none may be joined."""
    return job.reveal_deadline + job.terms.window_blocks


def on_start_match(
    store: Store,
    message: Message,
    job_id: int,
    first: Address,
    second: Address,
    tops: tuple[Digest, Digest],
    rivals: tuple[Digest, Digest],
) -> None:
    """Begin a match between two members whose claims meet, or may meet now; anyone may.

    `tops` are those of their histories, of which only keys are remembered. If their claims are to
    meet, `rivals` are the tops of those that each of the two met last; ignored of a claim that has
    met none.
    """
    job = get_open_job(store, job_id)
    require(message.block > job.reveal_deadline, Reason.TOO_EARLY)
    require(int(first, 16) < int(second, 16), Reason.WRONG_ORDER)
    pair = Pair(job_id, first, second)
    require(pair not in store.matches, Reason.MATCH_EXISTS)
    members = (get_contender(store, job_id, first), get_contender(store, job_id, second))
    require(members[0].key != members[1].key, Reason.NO_DISPUTE)
    are_theirs = all(hash_top(t) == m.key for t, m in zip(tops, members, strict=True))
    require(are_theirs, Reason.NO_SUCH_CLAIM)
    claims = (get_claim(store, job_id, members[0]), get_claim(store, job_id, members[1]))
    if not is_rival(*claims):
        for claim, rival in zip(claims, rivals, strict=True):
            _require_free(store, message, job_id, claim, rival)
        _meet(store, message, job_id, job, claims)
    start(store, message, pair, job, tops)


def _require_free(store: Store, message: Message, job_id: int, claim: Claim, top: Digest) -> None:
    """Refuse unless a claim may meet another; if it has met one, that is the one with this top."""
    rival = find_claim(store, job_id, top)
    require(claim.meeting == 0 or is_rival(claim, rival), Reason.NO_SUCH_CLAIM)
    require(is_free(claim, rival, message.block), Reason.CLAIM_MEETING)


def _meet(
    store: Store, message: Message, job_id: int, job: Job, claims: tuple[Claim, Claim]
) -> None:
    """Let two claims meet."""
    number, end = job.meetings + 1, message.block + job.terms.window_blocks
    for claim in claims:
        put_claim(store, job_id, replace(claim, meeting=number, window_end=end))
    store.put(store.jobs, job_id, replace(job, meetings=number, window_end=end))


def on_settle(store: Store, message: Message, job_id: int, top: Digest) -> None:
    """Close a job in which one claim is left, the one with this top, or none; anyone may.

    It is won by the claim that is left, unless a match was left undecided: then this might be a
    wrong one, and the client gets the reward.
    """
    job = get_open_job(store, job_id)
    require(message.block > job.window_end, Reason.TOO_EARLY)
    require(job.claims <= 1, Reason.STILL_DISPUTED)
    if job.claims == 0 or job.is_undecided:
        close_job(store, job_id, job, Status.EMPTY)
        store.events.append(Event("Settled", (job_id, Status.EMPTY, bytes(32))))
        return
    claim = find_claim(store, job_id, top)
    if claim is None or claim.contenders == 0:
        raise Revert(Reason.NO_SUCH_CLAIM)
    close_job(store, job_id, job, Status.WON, claim.sharers)
    store.events.append(Event("Settled", (job_id, Status.WON, top)))


def on_collect(store: Store, message: Message, job_id: int) -> None:
    """Pay the sender what a closed job owes it."""
    job = get_job(store, job_id)
    require(job.status is not Status.OPEN, Reason.TOO_EARLY)
    owed = calculate_debt(store, job_id, job, message.sender)
    require(owed > 0, Reason.NOTHING_OWED)
    member = get_member(store, job_id, message.sender)
    if member.keeps_bond(job.status):
        paid = replace(member, standing=Standing.PAID)
        store.put(store.members, (job_id, message.sender), paid)
    if message.sender == job.client:
        store.put(store.jobs, job_id, replace(job, is_client_owed=False))
    store.balance_wei -= owed
    store.events.append(Event("Collected", (job_id, message.sender, owed)))
