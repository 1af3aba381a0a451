"""Observations: the facts of a job, of oneself and of one's past, as numbers within bounds.

Money is in ETH, so that a policy sees the same numbers in every market. What is beyond its bounds
is shown as the bound, and no number is ever NaN or infinite.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.sim.economy.config import GWEI
from moot.sim.economy.facts import Job, News, Own

Observation = npt.NDArray[np.float32]

MOST_ETH = 1000.0
"""Amounts beyond it are shown as it."""

_MOST_RIVALS = 8
_MANY_JOBS = 100


class Feature(NamedTuple):
    """A number of an observation: its name, what it means, and its bounds."""

    name: str
    about: str
    low: float
    high: float


FEATURES = (
    Feature("value", "what a right answer is worth to the client, ETH", 0, MOST_ETH),
    Feature("price", "what each provider of the job is paid, ETH", 0, MOST_ETH),
    Feature("bond", "what each locks for each of its accounts, ETH", 0, MOST_ETH),
    Feature("fee", "what the calls of a job cost that nobody disputes, ETH", 0, MOST_ETH),
    Feature("audit_rate", "how often such a job is audited; 0 if that is hidden", 0, 1),
    Feature("is_hidden", "1 if the rule keeps the audit rate to itself", 0, 1),
    Feature("audit_fee", "what a watcher is paid who checks, ETH", 0, MOST_ETH),
    Feature("bait", "what forced errors bring a watcher on average, ETH", 0, MOST_ETH),
    Feature("gain", "what a wrong answer that is accepted is worth to a liar, ETH", 0, MOST_ETH),
    Feature("rivals", "others who run the job, as a share of 8", 0, 1),
    Feature("free", "money of its own that is not locked, ETH", 0, MOST_ETH),
    Feature("locked", "money of its own in open jobs, ETH", 0, MOST_ETH),
    Feature("work", "what it costs to run a job as agreed, or to check one, ETH", 0, MOST_ETH),
    Feature("reputation", "its reputation", 0, 1),
    Feature("jobs", "n / (n + 100) of the n jobs that it has taken", 0, 1),
    Feature("slashed", "the share of them in which it lost a bond", 0, 1),
    Feature("has_news", "1 if it has heard of a job", 0, 1),
    Feature("last_checked", "1 if the last one was said to be checked", 0, 1),
    Feature("last_slashed", "1 if it lost a bond there", 0, 1),
    Feature("last_wrong", "1 if the client got a wrong answer", 0, 1),
    Feature("last_profit", "what the last one brought it, ETH", -MOST_ETH, MOST_ETH),
    Feature("checked", "the share of all that it has heard of that were checked", 0, 1),
    Feature("caught", "the share of its own lies for which it lost a bond", 0, 1),
)
"""The numbers of an observation, in their order; facts of a job are 0 where there is none."""

LOW: Observation = np.array([it.low for it in FEATURES], np.float32)
HIGH: Observation = np.array([it.high for it in FEATURES], np.float32)
PLACES = {it.name: place for place, it in enumerate(FEATURES)}
"""The place of each number, by its name."""

_OF_JOB = PLACES["rivals"] + 1
_NO_JOB = (0.0,) * _OF_JOB


@dataclass(slots=True)
class Memory:
    """What an agent remembers of the jobs that it has heard of.

    Attributes:
        last: the last news; None before there is any.
        heard: how many jobs it has heard of.
        checked: in how many a watcher says to have checked.
        lies: in how many it did something else than what is agreed.
        caught: in how many of these it lost a bond.
    """

    last: News | None = None
    heard: int = 0
    checked: int = 0
    lies: int = 0
    caught: int = 0

    def hear(self, news: News) -> None:
        """Remember a job."""
        self.last = news
        self.heard += 1
        self.checked += news.was_checked or news.was_slashed
        self.lies += news.is_cheating
        self.caught += news.is_cheating and news.was_slashed


def observe(job: Job | None, own: Own, memory: Memory) -> Observation:
    """Return what an agent sees: `FEATURES` in their order, each within its bounds.

    Args:
        job: what it is asked about; None where it is asked nothing, as after the end.
        own: what it sees of itself.
        memory: of the jobs that it has heard of.
    """
    about = _NO_JOB if job is None else _show_job(job)
    found = np.array((*about, *_show_own(own), *_show_memory(memory)), np.float32)
    return np.clip(found, LOW, HIGH, out=found)


def _show_job(job: Job) -> tuple[float, ...]:
    is_hidden = math.isnan(job.audit_rate)
    return (
        job.value_gwei / GWEI,
        job.price_gwei / GWEI,
        job.bond_gwei / GWEI,
        job.fee_gwei / GWEI,
        0.0 if is_hidden else job.audit_rate,
        float(is_hidden),
        job.audit_gwei / GWEI,
        job.bait_gwei / GWEI,
        job.gain_gwei / GWEI,
        len(job.rivals) / _MOST_RIVALS,
    )


def _show_own(own: Own) -> tuple[float, ...]:
    return (
        own.free_gwei / GWEI,
        own.locked_gwei / GWEI,
        own.work_gwei / GWEI,
        own.reputation,
        own.jobs / (own.jobs + _MANY_JOBS),
        own.slashed / own.jobs if own.jobs else 0.0,
    )


def _show_memory(memory: Memory) -> tuple[float, ...]:
    last = memory.last
    if last is None:
        return (0.0,) * 7
    return (
        1.0,
        float(last.was_checked),
        float(last.was_slashed),
        float(last.outcome == "wrong"),
        last.profit_gwei / GWEI,
        memory.checked / memory.heard,
        memory.caught / memory.lies if memory.lies else 0.0,
    )
