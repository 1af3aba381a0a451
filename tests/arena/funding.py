"""The least that the shipped checks ask for: a balance, and a clock."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from moot.contracts.model.types import MAX_BLOCKS, Job, Terms
from moot.offchain.disputes.joining.job_check import _check_clock
from moot.offchain.parties.resources import Resources
from moot.offchain.parties.settings import Settings
from tests.arena.jobs import Work
from tests.arena.records import BLOCK_GAS

MOST_WEI = 10**22


def calculate_least(settings: Settings, terms: Terms) -> int:
    """Return the least balance with which the shipped check lets a provider take a job."""
    resources = Resources(settings)
    return _search(MOST_WEI, lambda wei: resources.find_obstacle(wei, terms) is None)


def calculate_clock(settings: Settings, job: Job, work: Work) -> int:
    """Return the shortest clock that the shipped check of a job takes."""
    agreed: Any = settings  # it has the crowd and the time of a block, which is all that is asked
    answer_s = work.timing.bound_answer(job.terms.checkpoint_every)

    def is_taken(clock_blocks: int) -> bool:
        timed = replace(job, terms=replace(job.terms, clock_blocks=clock_blocks))
        return _check_clock(BLOCK_GAS, timed, agreed, answer_s).problem is None

    return _search(MAX_BLOCKS, is_taken, job.terms.increment_blocks)


def _search(most: int, is_enough: Callable[[int], bool], least: int = 0) -> int:
    """Return the least number that is enough."""
    low, high = least, most
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
