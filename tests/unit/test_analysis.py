"""Answers: twins differ in the attackers alone, and break-even is found where closed forms say."""

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.analysis.best_response import find_best_responses, list_conducts
from moot.sim.analysis.break_even import find_break_even, find_crossing, parse_range
from moot.sim.analysis.trials import Laboratory, TrialError
from moot.sim.analysis.twins import (
    MEASURES,
    check_strategy,
    compare_twins,
    list_attackers,
    make_contest,
    try_pairs,
)
from moot.sim.economy.cases import Case
from moot.sim.economy.config import Config, Group, parse_config
from moot.sim.economy.simulate import make_outcomes, simulate
from moot.sim.estimates import estimate_mean
from moot.sim.experiments.engines import Here
from moot.sim.experiments.parts import ignore

BOND_GWEI = 10**9
PRICE_GWEI = 80_000_000
GAS_GWEI = 21


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Laboratory]:
    """A place where trials are played in this process."""
    with Here().open() as player:
        yield Laboratory(player, simulate, tmp_path, ignore)


def make_market(**changes: object) -> Config:
    """Return a market of honest and lazy providers, in which the price of gas hardly moves."""
    values: dict[str, object] = {
        "jobs": 400,
        "cases": 1,
        "chain": {"volatility": 0.0},
        "providers": [
            {"strategy": "honest", "count": 4},
            {"strategy": "lazy", "count": 4, "capital_eth": 500.0},
        ],
        "watchers": [{"strategy": "watcher", "count": 1, "slots": 1000}],
    }
    return parse_config(values | changes, "test")


def test_twins_differ_in_the_attackers_alone(laboratory: Laboratory) -> None:
    """With attackers that do nothing wrong, a market and its twin come to the very same."""
    market = make_market(
        providers=[
            {"strategy": "honest", "count": 4},
            {"strategy": "lazy", "count": 4, "parameters": {"rate": 0.0}},
        ]
    )
    (pairs,) = try_pairs(laboratory, [make_contest(market, ("lazy",))], 2)
    for pair in pairs:
        assert len(pair.attackers) == 4
        assert np.array_equal(pair.attack.profits_eth, pair.twin.profits_eth)
        assert np.array_equal(pair.attack.blocks, pair.twin.blocks)
        assert pair.gain_eth == pair.clients_loss_eth == pair.honesty_cost_eth == 0
    assert pairs[0].profit_eth != pairs[1].profit_eth


def test_attacks_cost_others_something(laboratory: Laboratory) -> None:
    """Where nobody looks, a lie brings its author the work it saves, and clients lose answers.

    Nobody is short of slots, so that those which a lie leaves free bring no more jobs.
    """
    many = [
        {"strategy": name, "count": 4, "slots": 1000, "capital_eth": 500.0}
        for name in ("honest", "lazy")
    ]
    market = make_market(providers=many, audit={"name": "constant", "rate": 0.0})
    (pairs,) = try_pairs(laboratory, [make_contest(market, ("lazy",))], 2)
    found = compare_twins(pairs)
    assert list(found) == list(MEASURES)
    assert found["gain_eth"].value > 0
    assert found["gain_eth_per_job"].value <= 0.02 + 1e-9
    assert found["clients_loss_eth"].value > 0
    assert found["honest_burned_share"].value == found["burned_share"].value == 0
    for estimate in found.values():
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= estimate.value <= estimate.high


def test_only_the_named_attackers_become_honest() -> None:
    """Other groups stay as they are; a watcher becomes one that checks."""
    market = make_market(
        watchers=[{"strategy": "watcher"}, {"strategy": "griefer", "capital_eth": 9.0}]
    )
    contest = make_contest(market, ("griefer",))
    assert contest.twin.providers == market.providers
    griefer = contest.twin.watchers[1]
    assert (griefer.strategy, griefer.capital_eth) == ("watcher", 9.0)
    assert list_attackers(market) == ("lazy",)
    check_strategy(market, "griefer")
    for absent in ("honest", "sybil-swarm", "griefr"):
        with pytest.raises(UsageError, match="unknown attacker"):
            check_strategy(market, absent)


def compute_profit(case: Case, seat: int, work_gwei: int) -> float:
    """Return what one provider has of a case, in gwei: at one price of gas, for one job."""
    of = case.seats[seat]
    paid = of.shares * PRICE_GWEI // case.sharers if case.sharers else 0
    lost = of.lost * BOND_GWEI - of.prizes * (BOND_GWEI // 2)
    return paid - lost - of.gas * GAS_GWEI - of.work * work_gwei


@pytest.mark.slow
def test_break_even_is_where_the_closed_form_says(laboratory: Laboratory) -> None:
    """The audit rate at which lies cease to pay is saved / (saved + lost), from the cases alone."""
    market = make_market(jobs=2000)
    outcomes = make_outcomes(market)
    work = 20_000_000
    honest = compute_profit(outcomes.judge(("honest",), 0), 0, work)
    missed = compute_profit(outcomes.judge(("lazy",), 0), 0, work)
    caught = compute_profit(outcomes.judge(("lazy", "watcher"), 0), 0, work)
    expected = (missed - honest) / (missed - caught)
    assert 0 < expected < 0.1
    place = parse_range("audit.rate=0:0.1")
    found = find_break_even(laboratory, market, place, "lazy", 8).value
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= expected <= found.high
    assert found.high - found.low < expected


def test_break_even_that_is_not_there(laboratory: Laboratory) -> None:
    """Where an attack pays at both ends of the range there is no value, and it is said so."""
    market = make_market(jobs=100, audit={"name": "constant", "rate": 0.0})
    found = find_break_even(laboratory, market, parse_range("bond.eth=0.1:2"), "lazy", 1)
    assert found.value is None
    assert [point.value for point in found.points] == [0.1, 2.0]
    assert all(point.mean > 0 for point in found.points)


@given(
    place=st.floats(0.01, 0.99),
    slope=st.floats(0.1, 10),
    inner=st.lists(st.floats(0, 1), max_size=10),
    pays_first=st.booleans(),
)
def test_crossings_of_lines(
    place: float,
    slope: float,
    inner: list[float],
    pays_first: bool,  # noqa: FBT001 - drawn
) -> None:
    """The crossing of a line is found from any points of it that have both signs among them."""
    values = np.array(sorted({0.0, 1.0, *inner}))
    gains = slope * (values - place) * (-1 if pays_first else 1)
    found = find_crossing(values, gains, pays_first=pays_first)
    assert math.isclose(found, place, abs_tol=1e-9)


@pytest.mark.parametrize("pays_first", [True, False])
def test_crossings_out_of_range(*, pays_first: bool) -> None:
    """A line that does not cross 0 has the end of the range beyond which it must."""
    values = np.array([1.0, 2.0])
    pays, does_not = np.array([1.0, 1.0]), np.array([-1.0, -1.0])
    assert find_crossing(values, pays, pays_first=pays_first) == (2.0 if pays_first else 1.0)
    assert find_crossing(values, does_not, pays_first=pays_first) == (1.0 if pays_first else 2.0)


def test_estimates() -> None:
    """A mean has an interval about it, the same each time, and none if there is one sample."""
    samples = np.random.default_rng(1).normal(3.0, 1.0, 200).tolist()
    found = estimate_mean(samples)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 3.0 < found.high
    assert 0.2 < found.high - found.low < 0.4  # 2 x 1.96 / sqrt(200)
    assert found == estimate_mean(samples)
    assert estimate_mean([2.5]).low is None
    constant = estimate_mean([2.0, 2.0, 2.0])
    assert (constant.low, constant.value, constant.high) == (2.0, 2.0, 2.0)


def test_a_market_that_nobody_watches_invites_lies(laboratory: Laboratory) -> None:
    """The best response is to lie always where nobody looks, and honesty where everybody does."""
    rates, conducts = (0.5, 1.0), ("lazy", "wrong-output")
    invited = {}
    for audits in (0.0, 1.0):
        market = make_market(
            jobs=300,
            providers=[{"strategy": "honest", "count": 3}],
            audit={"name": "constant", "rate": audits},
        )
        invited[audits] = find_best_responses(laboratory, market, conducts, rates, 2)
    assert (invited[0.0][0].conduct, invited[0.0][0].rate) == ("lazy", 1.0)
    assert invited[0.0][0].gain.value > 0
    assert all(response.gain.value < 0 for response in invited[1.0])
    for found in invited.values():
        assert len(found) == 4
        gains = [response.gain.value for response in found]
        assert gains == sorted(gains, reverse=True)


def test_responses_that_there_are_not(laboratory: Laboratory) -> None:
    """An unknown conduct, and a rate that is none, are refused."""
    with pytest.raises(UsageError, match="did you mean 'lazy'"):
        find_best_responses(laboratory, make_market(), ("lzy",), (1.0,), 1)
    for rate in (0.0, -1.0, 1.5):
        with pytest.raises(UsageError, match="no share of jobs"):
            find_best_responses(laboratory, make_market(), ("lazy",), (rate,), 1)
    assert "honest" not in list_conducts()


def test_a_run_that_fails_has_no_answer(laboratory: Laboratory) -> None:
    """A failed run is an error that says why, and no number."""
    broken = msgspec.structs.replace(make_market(), providers=(Group("nobody"),))
    with pytest.raises(TrialError, match="unknown strategy"):
        laboratory.try_all([broken])


@pytest.mark.parametrize(
    "text", ["", "bond.eth", "bond.eth=1", "bond.eth=1:2:3", "=1:2", "k=a:b", "k=nan:1", "k=1:inf"]
)
def test_ranges_that_are_none(text: str) -> None:
    """A range is a key and two numbers."""
    with pytest.raises(UsageError, match="KEY=LOW:HIGH"):
        parse_range(text)


def test_ranges_have_an_order() -> None:
    """The lower end comes first."""
    with pytest.raises(UsageError, match="turn it around"):
        parse_range("bond.eth=2:1")
    assert parse_range("bond.eth=0.01:5").high == 5
