"""Checks and readings that several calls share."""

from moot.contracts.model.types import ZERO, Address, Claim, Job, MatchArgs, Member, Pair, Store
from moot.contracts.model.words import hash_job, hash_top
from moot.contracts.reasons import Reason, Revert, Status
from moot.offchain.commitments.tree import Digest

NEW = Member()


def require(condition: bool, reason: Reason) -> None:  # noqa: FBT001 - reads as the contract does
    """Refuse the call unless the condition holds."""
    if not condition:
        raise Revert(reason)


def get_job(store: Store, job_id: int) -> Job:
    """Return a job that exists."""
    require(job_id in store.jobs, Reason.NO_SUCH_JOB)
    return store.jobs[job_id]


def get_open_job(store: Store, job_id: int) -> Job:
    """Return a job that is not closed."""
    job = get_job(store, job_id)
    require(job.status is Status.OPEN, Reason.CLOSED)
    return job


def get_member(store: Store, job_id: int, address: Address) -> Member:
    """Return a member; one that never joined has standing NONE."""
    return store.members.get((job_id, address), NEW)


def get_contender(store: Store, job_id: int, address: Address) -> Member:
    """Return a member that has shown a claim and has not been defeated."""
    member = get_member(store, job_id, address)
    require(member.is_contender, Reason.NOT_CONTENDER)
    return member


def get_claim(store: Store, job_id: int, member: Member) -> Claim:
    """Return the claim of a member that has shown it."""
    return store.claims[job_id, member.key]


def find_claim(store: Store, job_id: int, top: bytes) -> Claim | None:
    """Return the claim with this top, if anybody has shown it."""
    return store.claims.get((job_id, hash_top(top)))


def name_job(store: Store, job_id: int) -> int:
    """Return what calls that join a job name it by besides its number; 0 if there is no job."""
    return hash_job(store.jobs[job_id]) if job_id in store.jobs else 0


def name_match(store: Store, pair: Pair) -> MatchArgs:
    """Return the arguments of the call that begins a match; zeros for what there is not."""
    keys = [get_member(store, pair.job_id, a).key for a in (pair.first, pair.second)]
    first, second = (store.claims.get((pair.job_id, key)) for key in keys)
    are_meeting = first is not None and is_rival(first, second)
    rivals = [
        find_rival(store, pair.job_id, claim) if claim and not are_meeting else None
        for claim in (first, second)
    ]
    tops = (_get_top(first), _get_top(second))
    return (pair.job_id, pair.first, pair.second, tops, (_get_top(rivals[0]), _get_top(rivals[1])))


def _get_top(claim: Claim | None) -> Digest:
    return claim.top if claim else ZERO


def put_claim(store: Store, job_id: int, claim: Claim) -> None:
    """Remember a claim."""
    store.put(store.claims, (job_id, hash_top(claim.top)), claim)


def is_rival(claim: Claim, other: Claim | None) -> bool:
    """Whether a claim is in a meeting, and the other is the one that it meets there."""
    is_in_it = other is not None and other.meeting == claim.meeting and other.top != claim.top
    return claim.meeting != 0 and is_in_it


def find_rival(store: Store, job_id: int, claim: Claim) -> Claim | None:
    """Return the claim that this one meets; None if it never met one, or that has gone on."""
    claims = (other for (of_job, _), other in store.claims.items() if of_job == job_id)
    return next((other for other in claims if is_rival(claim, other)), None)


def is_free(claim: Claim, rival: Claim | None, block: int) -> bool:
    """Whether a claim may meet another: it never met one, or nobody is left of the one it met.

    In the time in which somebody may join its rival, it may not. Both have the same window, so that
    nobody ever joins a claim whose rival has gone on.
    """
    if claim.meeting == 0:
        return True
    return rival is not None and rival.contenders == 0 and block > claim.window_end
