"""Tricks: none takes anything from an honest provider, and none pays where one is watching."""

from collections import Counter
from functools import cache

import pytest

from moot.sim import market as module
from moot.sim.results import Books, Fate, JobResult, Outcome, judge_job
from moot.sim.strategies import TRICKS
from tests.quick import every, only
from tests.sim_helpers import open_model_market, play_model_market

JOBS, SEED = 8, 2
REWARD_WEI = module.STAKES.reward_wei
WORKERS = {"split", "self-play", "grabber"}
"""Those that have accounts behind the true claim, and get these accounts' shares."""
DIFFERENT = {
    "front-runner": {"reveal", "collect", "commit", "pick_element"},
    "grabber": {"commit", "reveal", "join", "settle", "collect", "rule", "timeout", "descend"},
}
"""Calls that are refused to some tricks; none is to the others."""


def get_profit(result: JobResult, strategy: str) -> int:
    """Return what all accounts of a strategy have gained in a job, in wei."""
    return sum(entry.profit_wei for entry in result.entries if entry.strategy == strategy)


@cache
def get_twins() -> list[JobResult]:
    """Return the jobs of a market in which everybody is honest."""
    return play_model_market("honest=3", JOBS, SEED)


@cache
def list_watched(mix: str, trick: str) -> list[JobResult]:
    """Return the jobs of a market in which the trick is played and somebody is honest."""
    return [
        result
        for result in play_model_market(mix, JOBS, SEED)
        if {"honest", trick} <= {entry.strategy for entry in result.entries}
    ]


@pytest.mark.parametrize("trick", every(4, sorted(set(TRICKS) - {"split"})))
def test_honest_payouts_are_not_reduced(trick: str) -> None:
    """Every honest provider gets at least what it gets if the other one is honest, too.

    It shares the reward with nobody but who has worked.
    """
    twins = get_twins()
    attacked = list_watched(f"honest=2,{trick}=1", trick)
    assert len(attacked) >= JOBS // 2
    for result in attacked:
        twin = {entry.provider: entry.profit_wei for entry in twins[result.number].entries}
        honest = [entry for entry in result.entries if entry.strategy == "honest"]
        share_wei = REWARD_WEI // (len(honest) + (trick in WORKERS))
        assert result.outcome is Outcome.RIGHT
        assert all(entry.fate is Fate.WON for entry in honest)
        assert all(entry.profit_wei >= max(twin[entry.provider], share_wei) for entry in honest)


@pytest.mark.parametrize("others", only([""], ["", ",lazy=1"]))
@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_pays(trick: str, others: str) -> None:
    """Who tries one earns no more than its accounts would by working, and if it lies, it loses."""
    attacked = list_watched(f"honest=2{others},{trick}=1", trick)
    assert attacked
    for result in attacked:
        own = [entry for entry in result.entries if entry.strategy == trick]
        lies = [entry for entry in own if entry.fate is Fate.SLASHED]
        profit_wei = get_profit(result, trick)
        if lies:
            assert profit_wei < 0
            continue
        sharers = sum(entry.fate is Fate.WON and entry.is_right for entry in result.entries)
        work_wei = len(own) * (REWARD_WEI // sharers)
        prizes_wei = len(result.matches) * module.STAKES.bond_wei // 2
        assert profit_wei <= work_wei + prizes_wei
        assert trick in WORKERS or any(entry.is_right for entry in own)


def test_shares_go_by_accounts() -> None:
    """Who works once and joins three times has three shares, but of one reward: that is allowed."""
    for result in list_watched("honest=2,split=1", "split"):
        honest = [entry for entry in result.entries if entry.strategy == "honest"]
        share_wei = REWARD_WEI // (3 + len(honest))
        assert all(entry.profit_wei == share_wei for entry in honest)
        assert get_profit(result, "split") == 3 * share_wei


@pytest.mark.parametrize("trick", every(4, [name for name, it in TRICKS.items() if it.scheme]))
def test_tricks_are_really_tried(trick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schemes make calls of their own, and are refused what they should be, and nothing else."""
    made: Counter[str] = Counter()
    refused: set[str] = set()

    def note(number: int, books: Books) -> JobResult:
        own = {seat.name for p in books.parties if p.strategy == trick for seat in p.seats}
        made.update(played.call for played in books.played if played.player in own)
        refused.update(refusal.call for refusal in books.refusals)
        return judge_job(number, books)

    monkeypatch.setattr(module, "judge_job", note)
    play_model_market(f"honest=2,lazy=1,{trick}=1", JOBS, SEED)
    assert made["commit"] + made["join"] >= JOBS // 2
    assert refused >= DIFFERENT.get(trick, set())
    assert trick in DIFFERENT or not refused
    joins = {"late-lie", "copy", "revenant"}
    assert (made["join"] > 0) == (trick in joins)
    assert (made["reveal"] == 0) == (trick in {"hidden", "late-lie", "copy", "front-runner"})


def measure_blocks(trick: str) -> int:
    """Return how many blocks a market with a trick takes."""
    market = open_model_market(f"honest=2,{trick}=1", JOBS, SEED)
    assert list(market.play())
    return market.venue.referee.block_number()


def test_some_tricks_take_time() -> None:
    """Moving late, censoring, coming late and coming back make jobs longer, as is intended."""
    usual = measure_blocks("hidden")
    for trick in ("last-block", "censor", "late-lie", "revenant"):
        assert measure_blocks(trick) > usual
