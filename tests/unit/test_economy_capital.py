"""Locked capital with a price: who pays it, that no money is lost by it, and where bonds end."""

from typing import Any

import pytest

from moot.offchain.errors import UsageError
from moot.sim.economy.config import BLOCKS_A_YEAR, GWEI, replace_keys
from moot.sim.theory.capital import Deterrence, calculate_carry, solve_bond
from tests.economy_helpers import FixedOutcomes, make_config, make_group, play

RATE = 30.0
PRICE, WORK = 0.08, 0.02
HONEST = [make_group("honest", count=8)]


def list_agents(kept: Any, role: str) -> list[Any]:
    """Return the rows of the agents of a role."""
    return [row for row in kept.read("agents") if row["role"] == role]


def test_locked_capital_is_paid_for() -> None:
    """Each pays for its locked gwei x blocks, and its profit is less by that, to the gwei."""
    free, _ = play(make_config(providers=HONEST), FixedOutcomes())
    paid, counts = play(make_config(providers=HONEST, capital={"rate": RATE}), FixedOutcomes())
    for before, after in zip(free.read("agents"), paid.read("agents"), strict=True):
        cost = after["locked_gwei_blocks"] * RATE / BLOCKS_A_YEAR
        assert after["capital_cost_gwei"] == pytest.approx(cost, abs=after["jobs"])
        assert before["profit_gwei"] - after["profit_gwei"] == after["capital_cost_gwei"]
        assert before["capital_cost_gwei"] == 0
    agents = paid.read("agents")
    assert counts.capital_gwei == sum(row["capital_cost_gwei"] for row in agents) > 10**8
    ends = [tables.read("ledger")[-1]["outside_gwei"] for tables in (free, paid)]
    assert ends[1] - ends[0] == counts.capital_gwei


def test_capital_that_is_free_changes_nothing() -> None:
    """A rate of 0, the default, gives the very rows that a market has without the key."""
    one, _ = play(make_config(), FixedOutcomes())
    other, _ = play(make_config(capital={"rate": 0.0}), FixedOutcomes())
    assert one.rows == other.rows


def test_who_has_nothing_left_pays_nothing() -> None:
    """A rate so high that nobody could pay it takes all, and no more, and the ledger holds."""
    groups = [make_group("lazy", count=8, capital_eth=1.2), make_group("honest", capital_eth=1.1)]
    config = make_config(
        providers=groups, capital={"rate": 1000.0}, audit={"name": "constant", "rate": 0.5}
    )
    config = replace_keys(config, {"providers.lazy.blocks": 50_000, "jobs": 40})
    kept, counts = play(config, FixedOutcomes())
    providers = list_agents(kept, "provider")
    assert counts.capital_gwei > 0
    assert min(row["profit_gwei"] + row["capital_gwei"] for row in providers) == 0


@pytest.mark.parametrize("rate", [-0.1, 1001, "much", float("nan")])
def test_a_rate_that_is_none_is_refused(rate: object) -> None:
    """A negative, an endless or a spelled rate is one line that names the key."""
    with pytest.raises(UsageError) as refusal:
        make_config(capital={"rate": rate})
    assert "\n" not in str(refusal.value)


def measure_cost(bond: float, rate: float) -> float:
    """Return what audits and capital cost a job, in ETH, at the least rate that deters lies."""
    config = make_config(
        jobs=3000,
        providers=HONEST,
        bond={"name": "constant", "eth": bond},
        audit={"name": "constant", "rate": WORK / (PRICE + bond)},
        capital={"rate": rate},
        chain={"volatility": 0.0, "base_fee_gwei": 0.001, "tip_gwei": 0.0},
        clients={"jobs_per_block": 2.0},
    )
    kept, counts = play(config, FixedOutcomes())
    checks = sum(row["work_gwei"] for row in list_agents(kept, "watcher"))
    return float((checks + counts.capital_gwei) / counts.jobs / GWEI)


def test_a_bond_between_audits_and_capital_is_the_cheapest() -> None:
    """With a price of capital the cost of deterrence is least at the closed form's bond."""
    game = Deterrence(WORK, PRICE, WORK, calculate_carry(RATE, 115, BLOCKS_A_YEAR))
    best = solve_bond(game)
    assert 0.3 < best < 1.0
    bonds = [best / 3, best, 3 * best]
    costs = [measure_cost(bond, RATE) for bond in bonds]
    assert costs[0] > costs[1] < costs[2]
    for bond, cost in zip(bonds, costs, strict=True):
        assert cost == pytest.approx(game.calculate_cost(bond), rel=0.15)


def test_without_a_price_the_largest_bond_is_the_cheapest() -> None:
    """Where capital is free a larger bond always saves audits, and no bond is the best."""
    costs = [measure_cost(bond, 0.0) for bond in (0.2, 0.8)]
    assert costs[0] > costs[1]
    with pytest.raises(UsageError, match="no best bond"):
        solve_bond(Deterrence(WORK, PRICE, WORK, 0.0))
    assert solve_bond(Deterrence(WORK, PRICE, WORK, 1.0)) == 0
    with pytest.raises(UsageError, match="saves something"):
        Deterrence(0.0, PRICE, WORK, 1.0)
