"""The referee's money: prizes, bonds and rewards are owed until they are collected.

Of a lost bond, the prize goes to the winner of the match and the rest is burned. Nothing moves
before the job is closed; then what nobody is owed is burned, and the rest waits to be collected.
"""

from dataclasses import replace

from moot.contracts.model.checks import get_claim, get_member, put_claim
from moot.contracts.model.types import Address, Job, Member, Pair, Store
from moot.contracts.reasons import Outcome, Standing, Status


def end_match(store: Store, pair: Pair, outcome: Outcome, *, rivals: tuple[Member, Member]) -> None:
    """End a match between two contenders: defeat whoever was wrong, or release both."""
    store.put(store.matches, pair, None)
    addresses = (pair.first, pair.second)
    for side, address in enumerate(addresses):
        if outcome is Outcome.UNDECIDED:
            _release(store, pair.job_id, address, rivals[side])
        elif outcome != side:
            winner = None if outcome is Outcome.NEITHER else addresses[outcome]
            _defeat(store, pair.job_id, address, rivals[side], winner)


def _release(store: Store, job_id: int, address: Address, member: Member) -> None:
    """Take a member out of the job that has not lost; it keeps its bond and its prizes."""
    store.put(store.members, (job_id, address), replace(member, standing=Standing.RELEASED))
    _leave_claim(store, job_id, member)
    store.put(store.jobs, job_id, replace(store.jobs[job_id], is_undecided=True))


def _defeat(
    store: Store, job_id: int, address: Address, loser: Member, winner: Address | None
) -> None:
    """Take a member out of the job; its prizes are forfeited, and its own goes to the winner."""
    store.put(store.members, (job_id, address), Member(Standing.DEFEATED, loser.key))
    _leave_claim(store, job_id, loser)
    forfeits = loser.prizes
    if winner is None:
        forfeits += 1
    else:
        member = get_member(store, job_id, winner)
        won = replace(member, prizes=member.prizes + 1)
        store.put(store.members, (job_id, winner), won)
    job = store.jobs[job_id]
    lost = replace(job, defeated=job.defeated + 1, forfeits=job.forfeits + forfeits)
    store.put(store.jobs, job_id, lost)


def _leave_claim(store: Store, job_id: int, member: Member) -> None:
    """Count a contender out of its claim, and that out of the job's if nobody is left of it."""
    claim, job = get_claim(store, job_id, member), store.jobs[job_id]
    contenders = claim.contenders - 1
    sharers = claim.sharers - (member.standing is Standing.REVEALED)
    put_claim(store, job_id, replace(claim, contenders=contenders, sharers=sharers))
    store.put(store.jobs, job_id, replace(job, claims=job.claims - (contenders == 0)))


def close_job(store: Store, job_id: int, job: Job, status: Status, sharers: int = 0) -> None:
    """Close a job, and burn what nobody is owed; without sharers the client gets the reward.

    If it is void everybody is owed what it has brought.
    """
    terms = job.terms
    kept = terms.bond_wei - terms.prize_wei
    lost = job.hidden * terms.bond_wei + job.defeated * kept + job.forfeits * terms.prize_wei
    if sharers:
        lost += job.reward_wei % sharers
    closed = replace(job, status=status, is_client_owed=sharers == 0)
    store.put(store.jobs, job_id, closed)
    if status is Status.VOID:
        return
    store.balance_wei -= lost
    store.burned_wei += lost


def calculate_debt(store: Store, job_id: int, job: Job, address: Address) -> int:
    """Return what a closed job owes an account, in wei: as a member, and as the client."""
    owed = 0
    member = get_member(store, job_id, address)
    if member.keeps_bond(job.status):
        owed += job.terms.bond_wei
        if job.status is not Status.VOID:
            owed += member.prizes * job.terms.prize_wei
        if job.status is Status.WON and member.standing is Standing.REVEALED:
            owed += job.reward_wei // get_claim(store, job_id, member).sharers
    if address == job.client and job.is_client_owed:
        owed += job.reward_wei
    return owed
