"""Errands: what a job is worth to a workshop, and when it is given up."""

import time
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.contracts.model.types import Address, Job
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.workshop import MOST_DEATHS, Checks, Errand, plan_errand
from tests.sim_helpers import make_task

OPENED, STEPS, OPERATORS = 100, 5, 4
TERMS = replace(
    make_terms(make_task(), Stakes()),
    steps=STEPS,
    operators=OPERATORS,
    commit_blocks=10,
    reveal_blocks=20,
    window_blocks=30,
)
SETTINGS = Settings(block_seconds=1e6, most_hours=2.5)


def make_job(reward_wei: int = 1_000, operators: int = OPERATORS) -> Job:
    """Return a job whose windows are known."""
    terms = replace(TERMS, operators=operators)
    return Job(Address("0x" + "c1" * 20), terms, reward_wei, opened_block=OPENED, window_end=0)


@pytest.mark.parametrize(
    ("checks", "blocks"), [(Checks.ALL, 7), (Checks.LATE, 57), (Checks.COST, inf)]
)
def test_a_job_is_of_use_until_its_claim_can_be_made(checks: Checks, blocks: float) -> None:
    """To commit by its deadline, to join late by the end of its window, to compute it always."""
    now = time.monotonic()
    errand = plan_errand(SETTINGS, 3, make_job(), OPENED + 3, checks)
    assert (errand.job_id, errand.checks, errand.spent_s) == (3, checks, 0.0)
    assert errand.limit_s == 2.5 * 3_600
    left = (errand.until - now) / SETTINGS.block_seconds
    assert left == blocks or round(left, 2) == blocks


@pytest.mark.parametrize("operators", [0, 1, OPERATORS])
def test_the_worth_of_a_job_is_its_reward_for_each_operator_of_each_step(operators: int) -> None:
    """Twice the reward is worth twice as much; a program without operators counts as of one."""
    errand = plan_errand(SETTINGS, 3, make_job(1_000, operators), OPENED, Checks.ALL)
    assert errand.worth == errand.rank == 1_000 / (STEPS * max(1, operators))


def test_what_a_claim_needs_has_neither_rank_nor_end() -> None:
    """It goes before whatever pays more, and is never given up."""
    errand = plan_errand(SETTINGS, 3, make_job(), OPENED + 10**6, Checks.NONE)
    assert errand == Errand(3, Checks.NONE)
    assert errand.rank == inf
    assert errand.find_end(1e300) == replace(errand, spent_s=1e300).find_end(0.0) == ""


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_an_errand_ends_beyond_its_limit_and_its_time(
    now: float, until: float, spent_s: float, limit_s: float
) -> None:
    """Until then it goes on; what is too late is so however long it took."""
    problem = Errand(1, Checks.ALL, 1.0, limit_s, until, spent_s).find_end(now)
    if now > until:
        assert problem.startswith("it is too late")
    else:
        assert problem.startswith("it takes more than") == (spent_s > limit_s)
        assert bool(problem) == (spent_s > limit_s)
    edge = Errand(1, Checks.ALL, 1.0, spent_s, now, spent_s)
    assert edge.find_end(now) == ""
    assert replace(edge, limit_s=spent_s - 1.0).find_end(now)
    assert replace(edge, until=now - 1.0).find_end(now)


def test_an_errand_that_nothing_is_said_of_is_worth_nothing_and_has_no_end() -> None:
    """A job dies twice before it is left."""
    errand = Errand(1, Checks.ALL)
    assert (errand.worth, errand.spent_s, errand.limit_s, errand.until) == (0.0, 0.0, inf, inf)
    assert MOST_DEATHS == 2
