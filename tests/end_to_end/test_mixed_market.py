"""A mixed market: what the table of cases says of a dispute is what the contract says of it."""

import pytest

from moot.sim.economy.case_runner import CaseRunner
from moot.sim.economy.cases import Lineup
from moot.sim.economy.config import Config, Program
from moot.sim.economy.schema import STAGES
from moot.sim.economy.simulate import simulate
from moot.sim.economy.strategies.table import AGENTS, WATCHERS
from moot.sim.strategies import STRATEGIES
from tests.economy_helpers import GAS_TOLERANCE, Kept, make_config, make_group, sum_gas

DISPUTES = 500
"""The number of sampled disputes that must agree."""

RUNNERS = {name: CaseRunner(Program(arithmetic=name)) for name in ("ordered", "exact")}


def make_mixed(jobs: int) -> Config:
    """Return a market of every strategy, each with an honest neighbour as often as not."""
    liars = [make_group(name) for name in (*STRATEGIES, *AGENTS) if name != "honest"]
    return make_config(
        seed=16,
        jobs=jobs,
        fidelity="mixed",
        sample=1.0,
        seats=2,
        providers=[*liars, make_group("honest", count=14)],
        watchers=[make_group(name, count=2) for name in WATCHERS],
        audit={"name": "constant", "rate": 0.3},
        pricing={"name": "posted", "eth": 0.1},
    )


@pytest.mark.slow
def test_every_strategy_ends_on_the_contract_as_in_the_table() -> None:
    """Not one of 500 disputes ends otherwise, and the gas of each stage is within two percent."""
    kept = Kept()
    counts = simulate(make_mixed(jobs=800), kept)
    assert counts.played >= DISPUTES
    assert counts.disagreements == 0
    seen = {name for game in kept.read("games") for name in game["lineup"].split("+")}
    assert seen >= set(STRATEGIES)
    modelled, played = sum_gas(kept)
    for stage in STAGES:
        assert modelled[stage] == pytest.approx(played[stage], rel=GAS_TOLERANCE), stage


@pytest.mark.parametrize(
    "lineup",
    [
        pytest.param(("lazy", "honest"), marks=pytest.mark.slow),
        pytest.param(("silent", "zero-claim"), marks=pytest.mark.slow),
        pytest.param(("honest", "shill", "shill"), marks=pytest.mark.slow),
        ("crowd", "revenant", "watcher"),
    ],
)
@pytest.mark.parametrize("arithmetic", ["ordered", pytest.param("exact", marks=pytest.mark.slow)])
def test_a_case_of_the_table_is_that_of_the_contract(lineup: Lineup, arithmetic: str) -> None:
    """A case that no game of the measurement was about: the same moves, and nearly the same gas.

    Who of two that never move loses depends on whose address is lower.
    """
    runner = RUNNERS[arithmetic]
    runner.play(("honest",), 0)  # the first job of a contract pays for the counter of jobs
    modelled, played = runner.model(lineup, 3), runner.play(lineup, 3)
    assert modelled.fates == played.fates
    assert [move.call for move in modelled.moves] == [move.call for move in played.moves]
    told, used = (sum(case.sum_stages()) for case in (modelled, played))
    assert told == pytest.approx(used, rel=GAS_TOLERANCE)


def test_who_shows_a_claim_too_late_ends_no_game() -> None:
    """Three claims wait, and a block has room for one: what comes after the window loses its bond.

    The others play on, and the client has what is right.
    """
    case = RUNNERS["ordered"].model(("honest", "sybil", "watcher"), 0, ((26, 48),))
    assert case.hidden == 2
    assert case.outcome == "right"
    assert [move.call for move in case.moves].count("reveal") == 2


def test_one_of_two_shills_opens_the_job() -> None:
    """A job has one client, to whom its reward goes back: the other is a provider that lies."""
    case = RUNNERS["ordered"].model(("honest", "shill", "shill"), 1)
    assert [seat.is_client for seat in case.seats] == [False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("lineup", [("lazy", "honest"), ("sybil", "honest"), ("censor", "watcher")])
def test_a_case_whose_calls_wait_is_that_of_the_contract(lineup: Lineup) -> None:
    """With the same blocks closed, model and contract take the bonds of the same accounts."""
    runner = RUNNERS["ordered"]
    fates = set()
    for first in (1, 25, 53, 54):
        closed = ((first, first + 60),)
        modelled, played = (play(lineup, 3, closed=closed) for play in (runner.model, runner.play))
        assert modelled.fates == played.fates
        assert [move.call for move in modelled.moves] == [move.call for move in played.moves]
        fates.add(modelled.fates)
    assert len(fates) > 1
