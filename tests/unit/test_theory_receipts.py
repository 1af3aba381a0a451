"""Closed forms of lies on receipts: algebra that holds, and what simulated markets come to."""

import math
from dataclasses import replace
from statistics import fmean
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from moot.offchain.errors import UsageError
from moot.sim.analysis.break_even import Range
from moot.sim.analysis.closed_form import (
    calculate,
    find_crossing,
    has_form,
    make_answer,
    make_scam,
    make_watch,
)
from moot.sim.economy.config import GWEI, Config, has_whole_numbers, replace_keys
from moot.sim.economy.service.settings import Shown
from moot.sim.theory import receipts
from moot.sim.theory.receipts import Answer, Scam, Watch
from tests.economy_helpers import FixedOutcomes, Kept, make_config, make_group, play

MONEY = st.floats(0.01, 100)
ANSWERS = st.builds(Answer, MONEY, MONEY, MONEY, MONEY, MONEY, MONEY)
WATCHES = st.builds(
    Watch, st.floats(1e-6, 0.1), st.integers(20, 1000), st.integers(0, 10), st.floats(0, 0.9)
)


@given(ANSWERS, WATCHES)
def test_a_lie_brings_nothing_at_each_solution(answer: Answer, watch: Watch) -> None:
    """Rate, window and stake at which lying ceases to pay are roots of what a lie brings."""
    rate, window = receipts.solve_rate(answer, watch), receipts.solve_window(answer, watch)
    assume(0 < rate < math.inf)
    scale = answer.bond + answer.defence
    assert abs(receipts.calculate_gain(answer, replace(watch, rate=rate))) < 1e-9 * scale
    assert abs(receipts.calculate_gain(answer, replace(watch, window=window))) < 1e-6 * scale
    stake = receipts.solve_stake(answer, watch)
    if stake:
        assert stake > answer.least
        gain = receipts.calculate_gain(replace(answer, stake=stake), watch)
        assert abs(gain) < 1e-9 * (stake + scale) / watch.detection
    else:
        assert receipts.calculate_gain(replace(answer, stake=0.0), watch) <= 1e-9 * scale


@given(ANSWERS, WATCHES, st.floats(1.01, 3))
def test_more_watching_makes_lying_worse(answer: Answer, watch: Watch, factor: float) -> None:
    """A higher rate, window, stake or share of clients never makes a lie bring more."""
    gain = receipts.calculate_gain(answer, watch)
    more = [
        (answer, replace(watch, rate=watch.rate * factor)),
        (answer, replace(watch, window=watch.window * factor)),
        (answer, replace(watch, clients=min(0.99, watch.clients * factor))),
        (replace(answer, stake=answer.stake * factor), watch),
    ]
    assert all(receipts.calculate_gain(*both) <= gain + 1e-9 for both in more)
    assert receipts.calculate_gain(replace(answer, gain=answer.gain * factor), watch) > gain


def test_nothing_deters_where_nobody_looks() -> None:
    """Without watchers no window and no stake is enough; where lies bring nothing, any is."""
    answer, nobody = Answer(1.0, 2.0, 3.0, 4.0, 5.0), Watch(0.0, 100)
    assert receipts.solve_window(answer, nobody) == math.inf
    assert receipts.solve_stake(answer, nobody) == math.inf
    assert receipts.solve_rate(answer, Watch(0.1, 1)) == math.inf
    honest = Answer(1.0, 0.0, 0.0, 4.0, 5.0)
    assert receipts.solve_rate(honest, nobody) == receipts.solve_stake(honest, nobody) == 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Answer(-1.0, 1.0, 1.0, 1.0, 1.0),
        lambda: Answer(1.0, 1.0, 1.0, 0.0, 0.0),
        lambda: Watch(-1.0, 10),
        lambda: Watch(1.0, 10, clients=1.0),
        lambda: Scam(0, 1, 1.0),
        lambda: Scam(1, 1, 1.0, "everything"),
        lambda: Scam(1, 1, 1.0, honest=2, watchers=1),
    ],
)
def test_impossible_values_are_refused(make: Any) -> None:
    """What can't be is refused."""
    with pytest.raises(UsageError):
        make()


def test_a_client_is_shown_what_a_market_knows() -> None:
    """The closed form and the market have the same ways to show a receipt."""
    assert get_args(Shown) == receipts.SHOWN


@pytest.mark.parametrize(("lies", "chance", "most"), [(40, 0.1, 3), (500, 0.01, 8), (3, 0.9, 9)])
def test_matches_stop_when_the_bond_is_used_up(lies: int, chance: float, most: int) -> None:
    """The mean number of matches is that of a binomial that is cut off."""
    drawn = np.random.default_rng(5).binomial(lies, chance, 200_000)
    watch = Watch(-math.log1p(-chance), 2)
    answer = Answer(0.0, 1.0, 0.0, 1.0, 1.0)
    found = receipts.calculate_matches(Scam(lies, 1, float(most)), answer, watch)
    assert math.isclose(found, np.minimum(drawn, most).mean(), rel_tol=0.01)


def draw_fault(scam: Scam, watch: Watch, rng: np.random.Generator) -> bool:
    """Draw who sees which receipt of a scam; return whether somebody can prove a fault."""
    seen: dict[tuple[int, int], set[int]] = {}
    for number in range(round(scam.numbers)):
        for chain in range(scam.chains):
            if scam.shown == "word":
                watcher = int(rng.integers(scam.watchers))
                is_seen = watcher < scam.honest
            else:
                watcher, is_seen = int(rng.integers(scam.honest)), rng.random() < watch.sampled
            if is_seen:
                place = 0 if scam.shown == "chain" else number
                seen.setdefault((watcher, place), set()).add(chain)
    return any(len(chains) > 1 for chains in seen.values())


@pytest.mark.parametrize(
    ("shown", "chains", "lies", "sampled", "honest", "watchers"),
    [
        ("receipt", 4, 80, 0.1, 2, 2),
        ("receipt", 2, 100, 0.1, 1, 1),
        ("chain", 3, 60, 0.05, 2, 3),
        ("word", 2, 4, 0.0, 2, 4),
        ("word", 3, 6, 0.0, 3, 5),
    ],
)
def test_faults_are_as_likely_as_who_sees_what(
    shown: str, chains: int, lies: int, sampled: float, honest: int, watchers: int
) -> None:
    """The chance of a proof of fault is the share of drawn scams that somebody can prove."""
    scam = Scam(lies, chains, 1.0, shown, honest, watchers)
    watch = Watch(-math.log1p(-sampled), 2)
    rng = np.random.default_rng(11)
    share = fmean(draw_fault(scam, watch, rng) for _ in range(1500))
    assert 0.1 < share < 0.99
    assert abs(receipts.calculate_fault(scam, watch) - share) < 0.03


def test_one_chain_is_no_fault() -> None:
    """Who gives receipts on one chain is never at fault; in batches whoever forks always is."""
    watch = Watch(0.01, 100)
    for shown in receipts.SHOWN:
        assert receipts.calculate_fault(Scam(100, 1, 1.0, shown, 2, 2), watch) == 0.0
    assert receipts.calculate_fault(Scam(100, 2, 1.0, "batch", 0, 0), watch) == 1.0
    assert receipts.calculate_fault(Scam(100, 2, 1.0, "chain", 0, 2), watch) == 0.0


PARAMETERS = {"honest": 50, "lies": 300, "chains": 2}
"""Of an exit scam."""


def test_a_scam_loses_its_bond_by_a_fault_and_pays_for_its_matches() -> None:
    """A certain fault costs the bond; certain matches cost their bonds and the defence of each."""
    answer = Answer(price=1.0, saving=2.0, gain=3.0, stake=1.0, least=1.0, defence=0.5)
    forked = receipts.calculate_scam(Scam(10, 2, 5.0, "batch"), answer, Watch(0.0, 10))
    assert math.isclose(forked, 10 * (2 + 3) - 5)
    found = receipts.calculate_scam(Scam(3, 1, 100.0), answer, Watch(1e3, 10))
    assert math.isclose(found, 3 * (2 + 3) - 3 * (1 + 0.5))
    assert receipts.solve_covered_stake(answer, Watch(0.0, 10), 4) == 4 * (2 + 3)


def make_market(providers: Any = None, **service: Any) -> Config:
    """Return a market of requests in which one provider in two lies, unless others are given."""
    plain = {
        "requests_per_block": 10.0,
        "tokens": 1000,
        "window_blocks": 60,
        "bond_eth": 400.0,
        "min_bond_eth": 0.02,
        "sample_rate": 0.001,
        "price_gwei": 100.0,
        "work_gwei": 50.0,
        "value_gwei": 200.0,
        "redeem_every": 10_000,
    }
    return make_config(
        jobs=4000,
        chain={"base_fee_gwei": 0.1, "tip_gwei": 0.0},
        clients={"count": 3, "jobs_per_block": 0.0, "gain_share": 1.0},
        providers=providers or [make_group("honest"), make_group("lazy")],
        watchers=[make_group("watcher", count=3, blocks=9), make_group("sleeping-watcher")],
        service=plain | service,
    )


@pytest.mark.parametrize("clients", [0.0, 0.2])
def test_lies_are_found_as_often_as_the_form_says(clients: float) -> None:
    """The share of lies that are challenged in a simulated market is that of the closed form."""
    config = make_market(client_checks=clients)
    kept, counts = play(config, FixedOutcomes())
    expected = make_watch(config).detection
    margin = 4 * math.sqrt(expected * (1 - expected) / counts.cheated)
    assert abs(counts.caught / counts.cheated - expected) < margin
    assert margin < 0.05
    assert {row["last"] - row["issued"] for row in kept.read("receipts")} == {60}


def measure_gain(config: Config) -> float:
    """Return what each lie has brought the liars of a market beyond honest answers, in ETH."""
    kept, counts = play(config, FixedOutcomes())
    profits = sum_profits(kept, "lazy")
    service = config.service
    receipts_of = [row for row in kept.read("receipts") if row["strategy"] == "lazy"]
    margin = sum(row["tokens"] for row in receipts_of) * (service.price_gwei - service.work_gwei)
    fees = sum(
        row["fees_gwei"]
        for row in kept.read("service")
        if row["call"] != "match" and row["agent"] in find_agents(kept, "lazy")
    )
    return float(profits + fees - margin) / counts.cheated / GWEI


def find_agents(kept: Kept, strategy: str) -> set[int]:
    """Return the agents with a strategy."""
    return {row["agent"] for row in kept.read("agents") if row["strategy"] == strategy}


def sum_profits(kept: Kept, strategy: str) -> int:
    """Return what all agents with a strategy have earned."""
    rows = kept.read("agents")
    return sum(row["profit_gwei"] for row in rows if row["strategy"] == strategy)


def test_a_lie_brings_what_the_form_says() -> None:
    """The mean gain of a lie in simulated markets is that of the closed form."""
    config = make_market()
    found = [measure_gain(replace_keys(config, {"seed": seed})) for seed in range(6)]
    expected = calculate(config, FixedOutcomes(), "lazy")
    spread = np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(fmean(found) - expected) < 4 * spread
    assert spread < 0.2 * make_answer(config, FixedOutcomes(), "lazy").gain / GWEI


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("service.sample_rate", 1e-5, 0.01),
        ("service.window_blocks", 15, 2000),
        ("service.stake_eth", 0.02, 1.0),
    ],
)
def test_the_place_by_the_form_is_that_of_its_solution(key: str, low: float, high: float) -> None:
    """Bisection over a key finds what the algebra solves, and nothing in a range without it."""
    config, outcomes = make_market(sample_rate=0.0002), FixedOutcomes()
    answer, watch = make_answer(config, outcomes, "lazy"), make_watch(config)
    share = 3 / 4
    solved = {
        "service.sample_rate": receipts.solve_rate(answer, watch) / share,
        "service.window_blocks": receipts.solve_window(answer, watch),
        "service.stake_eth": receipts.solve_stake(answer, watch) / GWEI,
    }[key]
    found = find_crossing(config, outcomes, Range(key, low, high), "lazy")
    assert found is not None
    assert math.isclose(found, solved, rel_tol=0.01, abs_tol=float(has_whole_numbers(config, key)))
    assert find_crossing(config, outcomes, Range(key, high, 2 * high), "lazy") is None


def test_a_scam_brings_what_the_form_says() -> None:
    """An exit scam gains in simulated markets what the closed form says, not what another has."""
    scams = [make_group("honest"), make_group("exit-scam", parameters=PARAMETERS)]
    service = {"bond_eth": 1.0, "min_bond_eth": 0.2, "stake_eth": 0.01, "sample_rate": 0.0001}
    config = make_market(providers=scams, **service)
    scam, _ = make_scam(config, config.providers[1])
    answer = make_answer(config, FixedOutcomes(), "wrong-output")
    margin = answer.price - answer.saving / (1 - config.service.cheap_share)
    honest = margin * (PARAMETERS["honest"] + PARAMETERS["lies"])
    found = []
    for seed in range(10):
        kept, counts = play(replace_keys(config, {"seed": seed}), FixedOutcomes())
        own = find_agents(kept, "exit-scam")
        calls = [it for it in kept.read("service") if it["agent"] in own and it["call"] != "match"]
        fees = sum(row["fees_gwei"] for row in calls)
        assert counts.cheated == PARAMETERS["lies"]
        found.append(sum_profits(kept, "exit-scam") + fees - honest)
    watch = make_watch(config)
    spread = np.std(found, ddof=1) / math.sqrt(len(found))
    expected = receipts.calculate_scam(scam, answer, watch)
    assert abs(fmean(found) - expected) < 3 * spread
    assert abs(fmean(found) - receipts.calculate_scam(scam, answer, Watch(0.0, 60))) > 3 * spread


def test_what_has_no_closed_form() -> None:
    """Honest providers, watchers and markets without requests have none."""
    config = make_market()
    assert has_form(config, "lazy")
    assert has_form(config, "exit-scam")
    assert not has_form(config, "honest")
    assert not has_form(config, "opportunist")
    assert not has_form(make_config(), "lazy")
