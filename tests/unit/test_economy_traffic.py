"""Calls in a dear market: who waits, whose clock runs out, who pays, and what is locked for it."""

from dataclasses import replace
from typing import Any

import pytest

from moot.offchain.errors import UsageError
from moot.sim.economy import traffic
from moot.sim.economy.cases import Case, Lineup
from moot.sim.economy.config import GWEI, parse_config
from moot.sim.economy.congested import Closed
from moot.sim.economy.delays import count_missed, delay
from moot.sim.economy.outcomes import Money
from moot.sim.economy.prices import Prices
from tests.case_helpers import run_case
from tests.economy_helpers import DrawnOutcomes, Kept, Row, make_config, make_group, play

SPIKES = {"spike_factor": 50.0, "spike_every": 300, "spike_blocks": 100}
RARE = {"jobs_per_block": 0.1}
LINEUPS = [("honest",), ("lazy", "watcher"), ("honest", "wrong-output"), ("silent", "honest")]


class TinyOutcomes(DrawnOutcomes):
    """Outcomes that are played on the model, for a tiny program; every call uses the same gas."""

    def judge(self, lineup: Lineup, number: int, money: Money | None = None) -> Case:
        """Play a case."""
        return self.congest(lineup, number, (), money)

    def congest(
        self, lineup: Lineup, number: int, closed: Closed, money: Money | None = None
    ) -> Case:
        """Play a case whose calls wait."""
        del number, money
        case = run_case(*lineup, closed=closed).case
        moves = tuple(replace(move, gas=60_000) for move in case.moves)
        return replace(case, moves=moves, client_gas=200_000)


def price_below_block(kept: Kept) -> list[Row]:
    """Return the jobs whose gas cost less in all than it costs in the block of their settling."""
    fees = {row["block"]: row["base_fee_wei"] for row in kept.read("ledger")}
    jobs = [row for row in kept.read("jobs") if row["outcome"] != "unserved"]
    return [it for it in jobs if it["fees_gwei"] * GWEI < it["gas"] * fees[it["settled"]]]


def test_no_job_is_settled_below_the_base_fee() -> None:
    """In a spike beyond the cap, a call waits: none is paid for with less than the base fee."""
    chain = {"fee_cap": 2.0, "gas_reserve": 2.0, **SPIKES}
    kept, counts = play(make_config(chain=chain, clients=RARE))
    assert counts.waited > 10
    assert price_below_block(kept) == []
    waited = [row for row in kept.read("jobs") if row["waited_blocks"]]
    assert len(waited) == counts.waited
    assert max(row["waited_blocks"] for row in waited) > 50
    assert kept.read("ledger")[-1]["locked_gwei"] == 0


def test_without_a_price_above_the_cap_nothing_changes() -> None:
    """Whatever the cap is, all rows are the same as long as no block is dearer than that."""
    chains = [{"fee_cap": cap, "gas_reserve": 4.0} for cap in (4.0, 1000.0)]
    (one, counts), (other, _) = (play(make_config(chain=chain)) for chain in chains)
    assert one.rows == other.rows
    assert counts.waited == counts.missed_clocks == counts.missed_gwei == counts.spoiled == 0


@pytest.mark.parametrize("lineup", LINEUPS)
def test_what_only_moves_calls_is_what_the_referee_says(lineup: Lineup) -> None:
    """A wait that is reckoned leaves the very case that is played with those blocks closed."""
    plain = run_case(*lineup).case
    blocks = sorted({move.block for move in plain.moves})[1::4]
    reckoned = 0
    for first in blocks:
        for end in (first + 2, first + 30):
            case = delay(plain, lineup, first, end)
            if case is not None:
                played = run_case(*lineup, closed=((first, end),)).case
                told, seen = (
                    [(m.block, m.call, m.player) for m in it.moves] for it in (case, played)
                )
                assert (case.fates, case.blocks, told) == (played.fates, played.blocks, seen)
                assert count_missed(plain, case) == 0
                reckoned += 1
    assert reckoned >= len(blocks)


@pytest.mark.parametrize(("mover", "outcome"), [("honest-1.1", "wrong"), ("lazy-1.1", "right")])
@pytest.mark.parametrize("blocks", [48, 47])
def test_whose_move_it_is_loses_with_its_clock(mover: str, outcome: str, blocks: int) -> None:
    """Blocks that are closed for a clock cost the side to move its bond; one less costs nothing."""
    plain = run_case("honest", "lazy").case
    (first, *_) = (m.block for m in plain.moves if m.stage == "trace" and m.player == mover)
    closed = ((first, first + blocks),)
    case = run_case("honest", "lazy", closed=closed).case
    lost = [seat.conduct for seat in case.seats if seat.lost]
    if blocks == 48:
        assert lost == [mover[:-4]]
        assert case.outcome == outcome
        assert delay(plain, ("honest", "lazy"), *closed[0]) is None
        assert count_missed(plain, case) == 1
    else:
        assert (lost, case.outcome) == (["lazy"], "right")
        assert count_missed(plain, case) == 0


def test_missed_clocks_and_their_cost_are_reported() -> None:
    """Jobs, events and the run's counts tell the same of who was too late, and what it cost."""
    chain = {"fee_cap": 2.0, "gas_reserve": 2.0, **SPIKES}
    kept, counts = play(make_config(jobs=40, chain=chain, clients=RARE), TinyOutcomes())
    jobs = kept.read("jobs")
    assert counts.missed_clocks == sum(row["missed_clocks"] for row in jobs) > 2
    assert counts.missed_gwei == sum(row["missed_gwei"] for row in jobs) > 2 * GWEI
    assert counts.spoiled == sum(row["planned"] not in (None, row["outcome"]) for row in jobs) > 2
    noted = {row["job"] for row in kept.read("events") if row["kind"] == "missed-clock"}
    assert noted == {row["job"] for row in jobs if row["missed_gwei"]}
    calm, none = play(make_config(jobs=20, clients=RARE), TinyOutcomes())
    assert none.missed_clocks == none.spoiled == 0
    assert not any(row["missed_gwei"] for row in calm.read("jobs"))


def test_a_call_that_waited_costs_what_its_block_costs() -> None:
    """Of a job whose calls have waited, gas costs the mean of the blocks that have the calls."""
    chain = {"fee_cap": 2.0, "gas_reserve": 2.0, "volatility": 0.0, **SPIKES}
    kept, _ = play(make_config(jobs=40, chain=chain, clients=RARE), TinyOutcomes())
    prices = {row["block"]: row["base_fee_wei"] + GWEI for row in kept.read("ledger")}
    waited = [row for row in kept.read("jobs") if row["waited_blocks"]]
    paid = [row["fees_gwei"] * GWEI / row["gas"] / prices[row["arrived"]] for row in waited]
    last = [prices[row["settled"]] / prices[row["arrived"]] for row in waited]
    assert len(paid) > 5
    assert max(paid) <= 2.001
    assert any(mean < 0.99 * price for mean, price in zip(paid, last, strict=True))


def test_what_is_reserved_is_not_what_may_be_paid() -> None:
    """With a cap of a thousand prices an agent of one bond and a bit takes jobs.

    Its reserve is small; where it has to be as large as the cap, nobody takes any.
    """
    groups = [make_group("honest", count=20, capital_eth=1.2)]
    served = []
    for reserve in (2.0, 1000.0):
        chain = {"fee_cap": 1000.0, "gas_reserve": reserve}
        _, counts = play(make_config(providers=groups, watchers=[], chain=chain))
        served.append(counts.jobs - counts.unserved)
    assert served[0] > 20
    assert served[1] == 0


def test_who_has_only_its_reserve_waits() -> None:
    """Beyond its reserve an agent pays from what is free; if it has nothing, its calls wait."""
    waited = []
    for capital_eth in (1.03, 100.0):
        chain = {"fee_cap": 1000.0, "gas_reserve": 1.0, **SPIKES}
        groups = [make_group("honest", count=40, capital_eth=capital_eth)]
        kept, counts = play(
            make_config(providers=groups, watchers=[], chain=chain, clients=RARE),
            DrawnOutcomes(gas=200_000),
        )
        assert counts.unserved < counts.jobs / 2
        assert price_below_block(kept) == []
        waited.append(counts.waited)
    assert waited[0] > 5
    assert waited[1] == 0


def test_a_wait_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where prices never come down again a job is settled all the same, after a week."""
    monkeypatch.setattr(traffic, "LONGEST", 5_000)
    chain = {"fee_cap": 2.0, "spike_factor": 50.0, "spike_every": 100, "spike_blocks": 100}
    kept, counts = play(make_config(jobs=20, chain=chain))
    waits = [row["waited_blocks"] for row in kept.read("jobs")]
    assert counts.jobs == 20
    assert max(waits) == 5_000
    assert kept.read("ledger")[-1]["open_jobs"] == 0


def test_prices_of_the_past_are_known() -> None:
    """Each block's price is that which it had, and none is known from long ago."""
    chain = make_config().chain
    prices, told = Prices(chain, 3), {}
    for block in range(1, 400):
        prices.go_on(block, 0)
        told[block] = prices.price_wei
    assert told == {block: prices.find_price(block) for block in told}
    assert prices.highest_wei == max(told.values())
    prices.go_on(200_000, 0)
    assert prices.find_price(1) == 0
    assert prices.find_price(200_000) == prices.price_wei


@pytest.mark.parametrize("key", ["gas_reserve", "fee_cap"])
@pytest.mark.parametrize("value", [0.5, -1.0, 2000.0, float("nan"), "high", None])
def test_an_impossible_multiple_is_refused_in_a_line(key: str, value: Any) -> None:
    """Less than the price itself can't be reserved or paid, nor can what is no number."""
    with pytest.raises(UsageError) as refusal:
        parse_config({"chain": {key: value}}, "a test")
    assert "\n" not in refusal.value.message
    assert "chain" in refusal.value.message or "nan" in refusal.value.message


DISCOUNT = {"name": "proportional", "multiple": 2.0, "discount": 1.0}
UNEQUAL = {"name": "decaying", "gain": 0.5, "kept": 0.2, "half_life": 0}


def test_honest_providers_forfeit_nothing() -> None:
    """Who is asked can pay the bond of the lowest reputation, gas and work: nobody forfeits."""
    groups = [
        make_group("honest", count=6, capital_eth=1.1),
        make_group("lazy", count=2, capital_eth=100.0),
    ]
    config = make_config(
        seats=2, jobs=400, providers=groups, bond=DISCOUNT, reputation=UNEQUAL, clients=RARE
    )
    kept, counts = play(config)
    honest = [row for row in kept.read("agents") if row["strategy"] == "honest"]
    assert sum(row["forfeits"] for row in honest) == 0
    assert not any(row["kind"] == "forfeit" for row in kept.read("events"))
    unserved = [row for row in kept.read("jobs") if row["outcome"] == "unserved"]
    assert len(unserved) == counts.unserved > 0
    assert {row["reason"] for row in unserved} <= {"nobody-can", "dispute-too-dear"}


def test_who_can_pay_a_bond_and_not_its_gas_is_not_asked() -> None:
    """An honest provider of one bond has no jobs and no forfeits; with gas and work it has jobs."""
    counted = {}
    for capital_eth in (1.0, 1.2):
        groups = [make_group("honest", count=20, capital_eth=capital_eth)]
        kept, counts = play(make_config(providers=groups, watchers=[]))
        assert sum(row["forfeits"] for row in kept.read("agents")) == 0
        counted[capital_eth] = counts.jobs - counts.unserved
    assert counted[1.0] == 0
    assert counted[1.2] > 20


def test_a_dispute_that_the_honest_cannot_pay_is_no_forfeit() -> None:
    """Who can pay for an honest job, and not for the dispute that a liar brings, is not blamed.

    A liar that can't pay for its three accounts is.
    """
    groups = [make_group("honest", count=2, capital_eth=1.06), make_group("sybil", count=2)]
    config = make_config(seats=2, providers=groups, watchers=[], clients=RARE)
    kept, _ = play(config, CheapPeace())
    reasons = {row["reason"] for row in kept.read("jobs")}
    assert "dispute-too-dear" in reasons
    assert not any(row["forfeits"] for row in kept.read("agents"))
    groups = [make_group("honest", count=2), make_group("sybil", capital_eth=2.5)]
    kept, _ = play(make_config(providers=groups))
    rows = {row["strategy"]: row["forfeits"] for row in kept.read("agents")}
    unserved = [row["reason"] for row in kept.read("jobs") if row["outcome"] == "unserved"]
    assert rows["sybil"] == len(unserved) > 20
    assert set(unserved) == {"overspent"}


class CheapPeace(DrawnOutcomes):
    """Outcomes in which nobody's gas counts as long as all are honest."""

    def judge(self, lineup: Lineup, number: int, money: Money | None = None) -> Case:
        """Draw a case."""
        case = super().judge(lineup, number, money)
        if len(set(lineup)) > 1:
            return case
        return replace(case, seats=tuple(replace(seat, gas=10_000) for seat in case.seats))
