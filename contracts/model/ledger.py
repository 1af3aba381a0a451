"""The referee's money: credits are owed until they are withdrawn, burned value has left."""

from dataclasses import replace

from contracts.model.types import WINNER_SHARE, Address, Event, Job, Store, Verdict
from contracts.reasons import Ending, Standing


def put_job(store: Store, job_id: int, job: Job) -> None:
    """Remember a job's new state."""
    store.jobs[job_id] = job


def credit(store: Store, address: Address, amount_wei: int) -> None:
    """Owe an account more."""
    if amount_wei:
        store.credits_wei[address] = store.credits_wei.get(address, 0) + amount_wei


def burn(store: Store, amount_wei: int) -> None:
    """Send value to the zero address."""
    store.balance_wei -= amount_wei
    store.burned_wei += amount_wei


def end_match(store: Store, job_id: int, job: Job, verdict: Verdict) -> None:
    """Defeat a member: part of its bond goes to its opponent, the rest is burned."""
    match = job.match
    assert match is not None
    rivals = (match.defender, match.challenger)
    winner, loser = rivals if verdict.defender_wins else rivals[::-1]
    share = job.terms.bond_wei // WINNER_SHARE
    credit(store, job.members[winner].address, share)
    burn(store, job.terms.bond_wei - share)
    defeated = replace(job.members[loser], standing=Standing.DEFEATED)
    members = (*job.members[:loser], defeated, *job.members[loser + 1 :])
    put_job(store, job_id, replace(job, members=members, match=None))
    args = (job_id, match.number, winner, loser, verdict.ending)
    store.events.append(Event("MatchEnded", args))


def void_job(store: Store, job_id: int, job: Job) -> None:
    """Give back every shown bond and the reward: the verifier that the job named did not rule."""
    hidden = 0
    for member in job.members:
        if member.standing is Standing.REVEALED:
            credit(store, member.address, job.terms.bond_wei)
        hidden += member.standing is Standing.COMMITTED
    credit(store, job.client, job.reward_wei)
    burn(store, hidden * job.terms.bond_wei)
    put_job(store, job_id, replace(job, match=None, is_settled=True))
    store.events.append(Event("Voided", (job_id, Ending.VERIFIER)))
