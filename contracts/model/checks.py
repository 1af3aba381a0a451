"""Checks and readings that several calls share."""

from contracts.model.types import Address, Claim, Job, Member, Pair, Store
from contracts.model.words import hash_top
from contracts.reasons import Reason, Revert, Status
from offchain.commitments.tree import Digest

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


def get_tops(store: Store, pair: Pair) -> tuple[Digest, Digest]:
    """Return the tops of two members' histories; zeros for who has shown none."""
    claims = (
        store.claims.get((pair.job_id, get_member(store, pair.job_id, address).key))
        for address in (pair.first, pair.second)
    )
    first, second = (claim.top if claim else bytes(32) for claim in claims)
    return first, second


def put_claim(store: Store, job_id: int, claim: Claim) -> None:
    """Remember a claim."""
    store.put(store.claims, (job_id, hash_top(claim.top)), claim)


def is_free(claim: Claim, block: int) -> bool:
    """Whether a claim may meet another: it never met one, or nobody is left of the one it met."""
    return claim.meeting == 0 or (claim.is_unopposed and block > claim.window_end)
