"""A simulated market: who pays whom, who is asked, what is drawn, and what is never lost."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from moot.sim.economy import deals
from moot.sim.economy.cases import Case, Lineup, Seat
from moot.sim.economy.config import Chain
from moot.sim.economy.deals import Deal
from moot.sim.economy.ledger import BrokenLedgerError, Ledger
from moot.sim.economy.outcomes import Money
from moot.sim.economy.population import Population
from moot.sim.economy.prices import Prices
from tests.economy_helpers import DrawnOutcomes, make_config, make_group, play

ALWAYS = {"name": "constant", "rate": 1.0}
HALF = {"name": "constant", "rate": 0.5}

NOISY = """
from dataclasses import dataclass
from moot.sim.economy.strategies.base import Strategy

@dataclass
class Mine(Strategy):
    def decide(self, job, own, stream):
        self.note(stream)
        return "honest"

    def look(self, job, own, stream):
        self.note(stream)
        return "watcher"

    def note(self, stream):
        raise ValueError(f"draws {stream.draw()}")
"""


def test_a_watcher_without_money_does_not_stop_a_job() -> None:
    """A watcher that overspends forfeits; the job is run as if it had not looked."""
    poor = make_config(watchers=[make_group("griefer", capital_eth=0.5)], audit=ALWAYS)
    kept, counts = play(poor)
    alone, counts_alone = play(make_config(watchers=[], audit=ALWAYS))
    assert counts.right + counts.wrong + counts.void == counts_alone.jobs - counts_alone.unserved
    assert all(row["watcher"] is None for row in kept.read("jobs"))
    (griefer,) = (row for row in kept.read("agents") if row["role"] == "watcher")
    assert griefer["forfeits"] > 100
    assert griefer["profit_gwei"] == 0
    assert kept.rows["jobs"] == alone.rows["jobs"]


def test_a_provider_that_overspends_forfeits() -> None:
    """Three bonds can't be paid from the money for two: nothing is locked, and the job is over."""
    groups = [make_group("honest", count=2), make_group("sybil", capital_eth=2.5)]
    kept, counts = play(make_config(providers=groups))
    (sybil,) = (row for row in kept.read("agents") if row["strategy"] == "sybil")
    assert sybil["forfeits"] == counts.unserved > 20
    assert sybil["jobs"] == sybil["profit_gwei"] == 0


def read_draws(folder: Path, **values: Any) -> dict[str, list[str]]:
    """Return the first things that agents of a noisy strategy draw, by their names."""
    (folder / "noisy.py").write_text(NOISY)
    name = f"{folder / 'noisy.py'}:Mine"
    providers = [*values.pop("before", []), make_group(name, count=2), make_group("honest")]
    watchers = [*values.pop("looking", []), make_group(name)]
    config = make_config(providers=providers, watchers=watchers, audit=ALWAYS, jobs=400, **values)
    kept, _ = play(config)
    names = {row["agent"]: (row["role"], row["name"]) for row in kept.read("agents")}
    draws: dict[str, list[str]] = {}
    for row in kept.read("events"):
        if row["kind"] == "forfeit" and "draws" in row["detail"]:
            draws.setdefault(" ".join(names[row["agent"]]), []).append(row["detail"])
    return {agent: said[:5] for agent, said in draws.items()}


def test_streams_do_not_depend_on_who_else_takes_part(tmp_path: Path) -> None:
    """More clients, providers and watchers change nothing in what an agent draws."""
    alone = read_draws(tmp_path)
    assert len(alone) == 3
    assert len({tuple(said) for said in alone.values()}) == 3
    assert alone == read_draws(tmp_path, clients={"count": 3})
    assert alone == read_draws(tmp_path, before=[make_group("lazy", count=3)])
    assert alone == read_draws(tmp_path, looking=[make_group("watcher", count=2)])
    assert alone != read_draws(tmp_path, seed=1)


def test_an_attack_and_its_honest_twin_have_the_same_jobs() -> None:
    """Arrivals, clients, values and who is audited are those of the twin, job by job."""
    tables = []
    for name in ("lazy", "false-flag"):
        groups = [make_group("honest", count=3), make_group(name, count=2)]
        kept, _ = play(make_config(providers=groups, audit=HALF, bond={"name": "proportional"}))
        columns = ("job", "arrived", "client", "value_gwei", "provider", "is_audited", "watcher")
        tables.append([tuple(row[name] for name in columns) for row in kept.read("jobs")])
    assert sorted(tables[0]) == sorted(tables[1])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows_whatever_the_hashes() -> None:
    """Neither what was played before in a process nor the hashes of texts change a byte."""
    code = (
        "from tests.economy_helpers import *\n"
        "import hashlib\n"
        "groups = [make_group(n, count=2) for n in ('opportunist', 'sybil', 'honest')]\n"
        "config = make_config(providers=groups, seats=2, entry={'per_1000_blocks': 20.0})\n"
        "one, other = play(config)[0].rows, play(config)[0].rows\n"
        "assert one == other\n"
        "print(hashlib.sha256(repr(sorted(one.items())).encode()).hexdigest())\n"
    )
    told = {
        subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_who_has_left_is_asked_no_more() -> None:
    """A farmer that has had its scams takes no job after the block in which it has left."""
    farmer = make_group("reputation-farmer", parameters={"ripe": 0.0, "scams": 3}, count=3)
    groups = [make_group("honest", count=3), farmer]
    kept, _ = play(make_config(providers=groups, jobs=600))
    left = {row["agent"]: row["left"] for row in kept.read("agents") if row["left"] is not None}
    assert len(left) == 3
    last: Counter[int] = Counter()
    for row in kept.read("jobs"):
        if row["provider"] in left:
            last[row["provider"]] = max(last[row["provider"]], row["arrived"])
    assert all(last[agent] <= block for agent, block in left.items())
    exits = [row["agent"] for row in kept.read("events") if row["kind"] == "exit"]
    assert sorted(exits) == sorted(left)


def test_a_provider_that_opens_its_own_job_gets_nothing_from_clients() -> None:
    """The reward is its own; a client neither pays for the answer nor has any use for it."""
    kept, counts = play(make_config(providers=[make_group("shill", count=2)], watchers=[]))
    agents = kept.read("agents")
    providers = {row["agent"] for row in agents if row["role"] == "provider"}
    assert counts.wrong > 20
    assert counts.client_gwei == 0
    assert all(row["profit_gwei"] == 0 for row in agents if row["role"] == "client")
    served = [row for row in kept.read("jobs") if row["outcome"] != "unserved"]
    assert {row["client"] for row in served} == providers
    assert counts.cheat_gwei == sum(row["profit_gwei"] for row in agents)


@pytest.mark.parametrize("name", ["proportional", "constant"])
def test_an_audit_fund_pays_what_it_has(name: str) -> None:
    """What cheats lose pays for audits, once; clients pay for the others."""
    audit = {"name": "from-bonds", "rate": 1.0}
    kept, counts = play(make_config(audit=audit, bond={"name": name}))
    assert counts.burned_gwei > 0
    assert kept.rows["ledger"][-1][5] == 0, "nothing is burned, all goes to the fund"
    ledger = kept.read("ledger")[-1]
    outside = -sum(row["capital_gwei"] for row in kept.read("agents"))
    fund = ledger["outside_gwei"] - outside
    fee_gwei = round(0.02 * 1.5 * 10**9)
    paid = counts.burned_gwei - fund
    assert fund >= 0
    assert paid % fee_gwei == 0
    assert 0 < paid // fee_gwei <= counts.audited


def test_events_are_in_order() -> None:
    """Blocks of the ledger rise; entries, arrivals and settlements happen in their blocks."""
    kept, _ = play(make_config(entry={"per_1000_blocks": 100.0}))
    blocks = [row["block"] for row in kept.read("ledger")]
    assert all(one < other for one, other in pairwise(blocks))
    entered = [row["entered"] for row in kept.read("agents")]
    assert sum(block > 0 for block in entered) > 10
    assert entered == sorted(entered)
    notes = [row["block"] for row in kept.read("events")]
    assert notes == sorted(notes)


def calculate_base_fee(base_fee: int, used: int, target: int) -> int:
    """Return the next base fee, as EIP-1559's specification has it."""
    if used == target:
        return base_fee
    if used > target:
        return base_fee + max(base_fee * (used - target) // target // 8, 1)
    return base_fee - base_fee * (target - used) // target // 8


@pytest.mark.parametrize("gwei", [1e-6, 1.0, 20.0, 1e5])
@pytest.mark.parametrize(("volatility", "spike"), [(0.0, 1.0), (0.2, 1.0), (2.0, 50.0)])
def test_base_fees_are_those_of_eip_1559(gwei: float, volatility: float, spike: float) -> None:
    """Block by block the fee follows from what was used: at most an eighth up or down."""
    chain = Chain(
        base_fee_gwei=gwei, volatility=volatility, spike_factor=spike, spike_every=9, spike_blocks=2
    )
    prices, factors = Prices(chain, 7), Prices(chain, 7)._factors
    target = 18_000_000
    start = prices.base_fee_wei
    for block in range(300):
        fee = prices.base_fee_wei
        demand = target * start / fee * next(factors) * (spike if block % 9 < 2 else 1)
        ours = 123_456 if block % 3 == 0 else 0
        prices.go_on(block + 1, ours)
        used = min(2 * target, int(demand) + ours)
        assert prices.base_fee_wei == calculate_base_fee(fee, used, target)
        assert prices.price_wei == prices.base_fee_wei + 10**9


def test_a_base_fee_rises_again_from_nothing() -> None:
    """Full blocks raise the lowest fee that there is."""
    prices = Prices(Chain(base_fee_gwei=1e-6, volatility=0.0), 0)
    prices.base_fee_wei = 1
    prices.go_on(100, 0)
    assert prices.base_fee_wei > 500


def break_payout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the referee pay a gwei too much."""
    pay = deals.pay_seat
    monkeypatch.setattr(deals, "pay_seat", lambda *args: pay(*args) + 1)


def break_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pay gains from nowhere."""

    def pay_gain(people: Population, deal: Deal) -> None:
        people._ledger.free[deal.parts[0].agent.number] += 5

    monkeypatch.setattr(Population, "pay_gain", pay_gain)


def break_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock more than what deals know of."""
    lock = Deal.lock

    def lock_more(deal: Deal, ledger: Ledger, chain: Chain) -> object:
        poor = lock(deal, ledger, chain)
        ledger.free[0] -= 1
        ledger.locked[0] += 1
        return poor

    monkeypatch.setattr(Deal, "lock", lock_more)


def break_purse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody have less than nothing, while all of it adds up."""
    lock = Deal.lock

    def lock_wrongly(deal: Deal, ledger: Ledger, chain: Chain) -> object:
        ledger.free[1] -= 10**16
        ledger.free[0] += 10**16
        return lock(deal, ledger, chain)

    monkeypatch.setattr(Deal, "lock", lock_wrongly)


@pytest.mark.parametrize("spoil", [break_payout, break_gain, break_lock, break_purse])
def test_a_broken_ledger_ends_the_run(monkeypatch: pytest.MonkeyPatch, spoil: Any) -> None:
    """Money from nowhere, locked for nothing, or below nothing, is noticed in its block."""
    spoil(monkeypatch)
    with pytest.raises(BrokenLedgerError):
        play(make_config(clients={"gain_share": 1.0}))


class TwoOpeners(DrawnOutcomes):
    """Outcomes that break the law: somebody pays the reward back twice."""

    def judge(self, lineup: Lineup, number: int, money: Money | None = None) -> Case:
        """Return a case in which the job was opened by two."""
        case = super().judge(lineup, number, money)
        if len(lineup) < 2:
            return case
        return Case(
            seats=(_open(case.seats[0]), _open(case.seats[1])),
            outcome="void",
            sharers=0,
            defeated=0,
            forfeits=0,
            hidden=0,
            is_disputed=False,
            blocks=1,
            client_gas=0,
            moves=(),
        )


def _open(seat: Seat) -> Seat:
    return replace(seat, accounts=1, lost=0, prizes=0, shares=0, is_client=True)


def test_a_case_that_pays_twice_is_noticed() -> None:
    """A case that gives the reward back twice breaks the ledger, and not the market's silence."""
    with pytest.raises(BrokenLedgerError, match="too much"):
        play(make_config(seats=2), TwoOpeners())
