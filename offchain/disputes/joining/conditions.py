"""The conditions on which a provider takes a job, and what they say of terms and of a program.

Everything here is known before anything is fetched or run: the terms from the chain, then the
program, whose shapes and the number of steps say what the job costs.
"""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from moot.contracts.model.types import NOBODY, Address, Job, Terms
from moot.contracts.reasons import LeafMode, Status
from moot.offchain.backends.table import DEFAULT
from moot.offchain.disputes.referee.crowds import SIDE_MOVES
from moot.offchain.programs.cost import compute_least_memory, count_bytes
from moot.offchain.programs.graph import Program
from moot.offchain.providers.rates import estimate_timing

YEAR_S, HOUR_S = 365 * 86_400, 3_600
LEAST_S = 1e-9
"""Blocks of no time are counted as of so much."""
_DIGEST_BYTES = 32
_NOTED_BYTES = 70
"""A checkpoint's root in a run's notes, which are written anew at each checkpoint."""
_NOTES_NS_PER_BYTE = 2.0


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The conditions on which a provider takes a job; money in wei, time in blocks or seconds.

    Attributes:
        leaf_mode: who decides the leaves.
        verifier: the account that posts rulings.
        most_bond_wei: the highest bond.
        least_reward_wei: the lowest reward.
        least_window_blocks: the shortest time to reveal, and to join what has met.
        most_locked_blocks: the longest time that a bond may be locked in a job.
        least_yield: the lowest reward for a bond, as a share of it, for a year that it is locked.
        least_hourly_wei: the lowest reward for an hour of computing.
        most_run_seconds: the longest time of computing.
        most_memory_bytes: the most memory; 0 for what this machine has.
        most_disk_bytes: the most room for its batches and checkpoints.
        most_operators: the most operators of a program.
        most_slots: the most tensors of a program's state, and of its batch.
        most_checkpoints: the most checkpoints.
        crowd: how many members of one claim the clocks have to withstand.
        confirmations: so many blocks may be replaced by others at the end of the chain.
        block_seconds: the time between blocks.
        joins_late: whether the job is joined once others have claimed.
        backend: the name of what computes it.
    """

    leaf_mode: LeafMode = LeafMode.SCALAR
    verifier: Address = NOBODY
    most_bond_wei: int = 10**18
    least_reward_wei: int = 0
    least_window_blocks: int = 16
    most_locked_blocks: int = 50_400
    least_yield: float = 0.05
    least_hourly_wei: int = 5 * 10**14
    most_run_seconds: float = 86_400.0
    most_memory_bytes: int = 0
    most_disk_bytes: int = 10**11
    most_operators: int = 1 << 16
    most_slots: int = 1 << 13
    most_checkpoints: int = 1 << 14
    crowd: int = 100
    confirmations: int = 8
    block_seconds: float = 12.0
    joins_late: bool = False
    backend: str = DEFAULT


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one item of the check: `problem` is one line, or None if the item holds."""

    item: str
    problem: str | None


def find_if(*, is_met: bool, item: str, problem: str) -> Finding:
    """Return the finding of an item, which has a problem if it is not met."""
    return Finding(item, None if is_met else problem)


def has_problem(findings: Sequence[Finding]) -> bool:
    """Whether any of some findings is a problem."""
    return any(it.problem for it in findings)


def describe_problems(findings: Iterable[Finding]) -> str:
    """Return the problems of some findings on one line; nothing if there is none."""
    return "; ".join(f"{it.item}: {it.problem}" for it in findings if it.problem)


def compare(item: str, found: object, wanted: object) -> Finding:
    """Return the finding of an item that a job has, and that is to be another or the same."""
    shown = (it.hex() if isinstance(it, bytes) else str(it) for it in (found, wanted))
    problem = "the job has {}, and {} is right".format(*shown)
    return find_if(is_met=found == wanted, item=item, problem=problem)


def check_length(job: Job, steps: int, checkpoint_every: int) -> Iterator[Finding]:
    """Compare the length of a job with what was agreed to."""
    yield compare("steps", job.terms.steps, steps)
    yield compare("checkpoint_every", job.terms.checkpoint_every, checkpoint_every)


def check_terms(job: Job, wanted: Conditions) -> Iterator[Finding]:
    """Compare the terms that no program is needed for with the conditions."""
    terms, reward = job.terms, job.reward_wei
    yield find_if(is_met=job.status is Status.OPEN, item="status", problem="the job is closed")
    yield compare("leaf_mode", terms.leaf_mode.name.lower(), wanted.leaf_mode.name.lower())
    yield compare("verifier", terms.verifier.lower(), wanted.verifier.lower())
    yield _check_most("bond_wei", "the bond", terms.bond_wei, wanted.most_bond_wei)
    yield _check_least("reward_wei", "the reward", reward, wanted.least_reward_wei)
    for name in ("reveal_blocks", "window_blocks"):
        blocks = getattr(terms, name)
        yield _check_least(name, "they", blocks, wanted.least_window_blocks)
    locked = bound_locked_blocks(terms, wanted.crowd)
    text = "the blocks that a bond may be locked"
    yield _check_most("locked_blocks", text, locked, wanted.most_locked_blocks)
    years = locked * wanted.block_seconds / YEAR_S
    least_wei = int(terms.bond_wei * wanted.least_yield * min(years, 1e6))
    text = f"the reward, with the bond locked for {locked} blocks,"
    yield _check_least("yield", text, reward, least_wei)


def check_size(terms: Terms, wanted: Conditions) -> Iterator[Finding]:
    """Compare what the terms say of a job's size with the conditions: nothing is fetched yet."""
    yield _check_most("size", "the operators", terms.operators, wanted.most_operators)
    slots = max(terms.state_slots, terms.batch_slots)
    yield _check_most("slots", "the tensors of the state or of a batch", slots, wanted.most_slots)
    count = count_checkpoints(terms)
    yield _check_most("checkpoints", "the checkpoints", count, wanted.most_checkpoints)


def check_cost(terms: Terms, program: Program, wanted: Conditions) -> Iterator[Finding]:
    """Compare what a program costs with the conditions, before anything is run or fetched for it.

    Args:
        terms: the job's.
        program: its program, or what is said to be it.
        wanted: the conditions.
    """
    seconds = estimate_run(program, terms)
    text = "the seconds that the run takes"
    yield _check_most("run_seconds", text, seconds, wanted.most_run_seconds)
    memory = compute_least_memory(program)
    most = wanted.most_memory_bytes or get_memory()
    yield _check_most("memory_bytes", "the bytes of memory that it takes", memory, most)
    disk = estimate_disk(program, terms)
    yield _check_most("disk_bytes", "the bytes that are kept of it", disk, wanted.most_disk_bytes)


def check_worth(job: Job, program: Program, wanted: Conditions, block: int) -> Iterator[Finding]:
    """Compare what a run costs with what the job pays for it, and with the time that is left.

    Args:
        job: the job.
        program: its program.
        wanted: the conditions.
        block: the latest block.
    """
    seconds = estimate_run(program, job.terms)
    least_wei = int(seconds / HOUR_S * wanted.least_hourly_wei)
    yield _check_least("hourly_wei", "the reward for so much work", job.reward_wei, least_wei)
    left = count_left(job, block, joins_late=wanted.joins_late)
    yield check_time("commit_blocks", seconds, wanted.block_seconds, left)


def check_time(item: str, seconds: float, block_seconds: float, left_blocks: int) -> Finding:
    """Compare the time that a run takes with the blocks that are left to commit or to join."""
    blocks, left = math.ceil(seconds / max(block_seconds, LEAST_S)), max(left_blocks, 0)
    late = f"the run takes about {blocks:,} blocks, and {left:,} are left"
    return find_if(is_met=blocks < left, item=item, problem=late)


def count_left(job: Job, block: int, *, joins_late: bool) -> int:
    """Return the blocks that are left after one to commit, or to join late."""
    last = job.reveal_deadline + job.terms.window_blocks if joins_late else job.commit_deadline
    return last - block


def bound_locked_blocks(terms: Terms, crowd: int) -> int:
    """Return the longest time that a bond is locked in a job: all rounds, played slowly.

    Claims are knocked out in as many rounds as halve them, of which each has a window and a match.
    """
    rounds = crowd.bit_length()
    moves = 2 * SIDE_MOVES
    match_blocks = 2 * terms.clock_blocks + moves * terms.increment_blocks
    first = terms.commit_blocks + terms.reveal_blocks
    return first + rounds * (terms.window_blocks + match_blocks)


def count_checkpoints(terms: Terms) -> int:
    """Return the number of checkpoints of a job."""
    return -(-terms.steps // max(1, terms.checkpoint_every))


def estimate_run(program: Program, terms: Terms) -> float:
    """Return the seconds that a job takes on one core, with what it takes to note its roots."""
    timing, count = estimate_timing(program), count_checkpoints(terms)
    batch_s = count_bytes(program.batch) * 1e-9
    noted_s = _NOTED_BYTES * count * count / 2 * _NOTES_NS_PER_BYTE * 1e-9
    return (
        timing.prepared_s
        + terms.steps * (timing.step_s + batch_s)
        + count * timing.state_s
        + noted_s
    )


def estimate_disk(program: Program, terms: Terms) -> int:
    """Return the bytes that are kept of a job: its batches and their roots, and its states."""
    state, batch = count_bytes(program.state), count_bytes(program.batch)
    roots = _DIGEST_BYTES * len(program.batch)
    return terms.steps * (batch + roots) + (1 + count_checkpoints(terms)) * state


def get_memory() -> int:
    """Return the memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _check_most(item: str, what: str, found: float, most: float) -> Finding:
    problem = f"{what}: {_show(found)}, above {_show(most)}"
    return find_if(is_met=found <= most, item=item, problem=problem)


def _check_least(item: str, what: str, found: float, least: float) -> Finding:
    problem = f"{what}: {_show(found)}, below {_show(least)}"
    return find_if(is_met=found >= least, item=item, problem=problem)


def _show(number: float) -> str:
    """Return a number as people read it; one of many digits in short."""
    return f"{number:,}" if isinstance(number, int) else f"{number:.3g}"
