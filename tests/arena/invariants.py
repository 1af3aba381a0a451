"""What holds in every game whose assumptions held: a sentence and a function each.

A function returns what is wrong, or nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moot.contracts.model.types import Job
from moot.contracts.reasons import Standing, Status
from moot.offchain.commitments.tensors import compute_history_root
from moot.offchain.datastore.objects import HISTORIES, STATES, name_object
from moot.offchain.disputes.joining.conditions import bound_locked_blocks
from moot.offchain.disputes.referee.gas import calculate_crowd_gas
from tests.arena.jobs import get_run
from tests.arena.names import HONEST
from tests.arena.records import GWEI

if TYPE_CHECKING:
    from tests.arena.world import World

MOST_QUESTIONS = 140
"""Views that a party may ask for in the time of a block: as it starts, it looks
at 50 jobs, two each."""
MOST_CHECKPOINTS = 64
"""Whoever has more has not been computed in a game."""
Judge = Callable[["World", str], str]
CHECK_S = 600.0
"""Checking a job may take so long, whatever it pays."""
SECONDS_PER_ETHER = 10**6
"""A job may be computed for so long for its reward."""
AGREED_BLOCKS = 50_400
"""A bond is locked for a week at most, unless the settings say otherwise."""


def keep_bonds(world: "World", ended: str) -> str:
    """An honest party whose check passed never loses a bond."""
    del ended
    for job_id, job in world.list_jobs():
        standing = world.standing(job_id)
        is_hidden = standing is Standing.COMMITTED and world.chain.head.number > job.reveal_deadline
        if standing is Standing.DEFEATED or (is_hidden and job.status is not Status.VOID):
            return f"its bond in job {job_id} is lost ({standing.name.lower()})"
    return ""


def keep_balance(world: "World", ended: str) -> str:
    """An honest party's worth never falls below its start less the gas that it may spend."""
    del ended
    worth, jobs = world.chain.ledger.balances[HONEST], 0
    for job_id, job in world.list_jobs():
        standing = world.standing(job_id)
        jobs += standing is not Standing.NONE
        if job.status is not Status.OPEN:
            worth += world.court.debt(job_id, HONEST)
        elif standing is not Standing.NONE:
            worth += job.terms.bond_wei
    bonds = sum(
        job.terms.bond_wei
        for job_id, job in world.list_jobs()
        if world.standing(job_id) is Standing.DEFEATED
        or (world.standing(job_id) is Standing.COMMITTED and job.status is not Status.OPEN)
    )
    jobs = max(jobs, _count_commits(world))
    met = world.count_matches()
    gas = jobs * calculate_crowd_gas(0) + calculate_crowd_gas(met) - calculate_crowd_gas(0)
    told = gas * int(world.settings.max_fee_gwei * GWEI)
    if world.settings.demand_budget:
        share = world.settings.demand_share
        told += int(sum(job.reward_wei for _, job in world.list_jobs()) * share)
    floor = world.start_wei - told - bonds
    return f"it has lost {(world.start_wei - worth) / 1e18:.4g} ether" if worth < floor else ""


def _count_commits(world: "World") -> int:
    """Return how many commits were made, those included that a replaced job has refused."""
    made = (receipt.sent.call for block in world.chain.blocks for receipt in block.receipts)
    return sum(call.name == "commit" and call.sender == HONEST for call in made)


def bound_demands(world: "World", ended: str) -> str:
    """What is paid for demands of a job's parts is at most the share of its reward."""
    del ended
    paid: dict[int, int] = {}
    for block in world.chain.blocks:
        for receipt in block.receipts:
            call = receipt.sent.call
            if call.name == "demand" and call.sender == HONEST and not receipt.reason:
                job_id = call.args[0].job_id
                paid[job_id] = paid.get(job_id, 0) + call.value_wei
    for job_id, job in world.list_jobs():
        if paid.get(job_id, 0) > job.reward_wei * world.settings.demand_share:
            return f"{paid[job_id] / 1e18:g} ether are put up for parts of job {job_id}"
    return ""


def bound_work(world: "World", ended: str) -> str:
    """The work that is done for a job is bounded by its reward."""
    del ended
    for job_id, job in world.list_jobs():
        seconds = world.shop.count_seconds(job_id)
        most = CHECK_S + job.reward_wei / 10**18 * SECONDS_PER_ETHER
        if seconds > most:
            reward = f"{job.reward_wei / 1e18:.3g} ether"
            return f"job {job_id} with {reward} is computed for {seconds:,.0f} s"
    return ""


def bound_locks(world: "World", ended: str) -> str:
    """No bond is locked for longer than was agreed."""
    del ended
    for job_id, job in world.list_jobs():
        terms = job.terms
        blocks = terms.commit_blocks + terms.reveal_blocks + terms.window_blocks
        if world.standing(job_id) is not Standing.NONE and blocks > AGREED_BLOCKS:
            return f"the bond of job {job_id} is locked for {blocks:,} blocks"
        held = world.chain.head.number - job.opened_block
        is_held = world.standing(job_id) is not Standing.NONE and job.status is Status.OPEN
        if is_held and held > bound_locked_blocks(terms, world.settings.crowd):
            return f"the bond of job {job_id} is not free after {held:,} blocks"
    return ""


def live_on(world: "World", ended: str) -> str:
    """A party never ends but by a signal."""
    del world
    return ended


OF_MONEY = frozenset({"bond", "balance", "locks"})
"""What is judged only where the assumptions held."""
INVARIANTS: dict[str, Judge] = {
    "bond": keep_bonds,
    "balance": keep_balance,
    "demands": bound_demands,
    "work": bound_work,
    "locks": bound_locks,
    "life": live_on,
}


def watch_block(world: "World") -> None:
    """Judge what can be judged of a block only while it is the latest."""
    _watch_questions(world)
    for job_id, job in world.list_jobs():
        for folder in world.served:
            _watch_results(world, folder, job_id, job)


def _watch_results(world: "World", folder: Path, job_id: int, job: Job) -> None:
    """A history can be read once claims are shown, and a state once the job is won."""
    run = get_run(world.find_work(job.terms).size, None)
    if run.history.count > MOST_CHECKPOINTS:
        return
    roots = [run.history.node(0, place) for place in range(run.history.count)]
    is_hidden = world.chain.head.number <= job.reveal_deadline
    history = folder / name_object(HISTORIES, compute_history_root(roots))
    if is_hidden and history.exists():
        line = f"the history of job {job_id} is served before claims are shown"
        world.broken.setdefault("history", line)
    state = folder / name_object(STATES, roots[-1])
    if job.status is not Status.WON and state.exists():
        line = f"the result of job {job_id} is served before it is won"
        world.broken.setdefault("result", line)


def _watch_questions(world: "World") -> None:
    """A block makes a party ask a node a bounded number of questions, whatever others have done."""
    asked = max(node.asked.pop("eth_call", 0) for node in world.nodes.values())
    # A start that one node spoils is made again with the next one.
    starts, world.restarts = (1 + world.restarts) * len(world.nodes), 0
    if asked > MOST_QUESTIONS * starts:
        world.broken.setdefault("questions", f"{asked} views are asked for in one block")
