"""The means of a party: what a dispute may cost, and when there is not enough for one."""

from dataclasses import replace
from pathlib import Path

from contracts.model.types import MIN_BOND_WEI
from offchain.disputes.referee import Call
from offchain.disputes.terms import make_terms
from offchain.parties.means import DISPUTE_GAS, MATCH_GAS, MOST_GAS, Means
from offchain.parties.settings import Settings
from sim.paper import Size, make_task

SNAPSHOT = Path(__file__).parents[2] / "gas-snapshot.txt"
TERMS = replace(make_terms(make_task(Size())), bond_wei=MIN_BOND_WEI)
ETHER = 10**18


def read_snapshot() -> dict[str, dict[str, int]]:
    """Return the gas of each scenario's matches, and the most of each call under no name."""
    most: dict[str, int] = {}
    scenarios: dict[str, dict[str, int]] = {"": most}
    for line in SNAPSHOT.read_text().splitlines():
        if line.startswith("#"):
            continue
        scenario, stage, count, _, median, high = line.split()
        call = stage.rpartition(".")[2]
        most[call] = max(most.get(call, 0), int(high))
        totals = scenarios.setdefault(scenario, {})
        totals[call] = totals.get(call, 0) + int(count) * int(median)
    return scenarios


def test_gas_of_a_call_is_the_most_of_the_snapshot() -> None:
    """The table is the recorded one, for every call that it has."""
    most = read_snapshot()[""]
    assert {call: most[call] for call in MOST_GAS} == MOST_GAS


def test_no_side_of_a_recorded_match_pays_more_than_a_match_may() -> None:
    """All calls of both sides of any recorded match are less than twice the gas of one side."""
    moves = MOST_GAS.keys() - {"commit", "reveal", "join", "settle", "collect"}
    played = [
        sum(gas for call, gas in totals.items() if call in moves)
        for scenario, totals in read_snapshot().items()
        if scenario not in {"", "two-liars", "two-members", "join-late"}
    ]
    assert max(played) < 2 * MATCH_GAS < 2 * DISPUTE_GAS


def test_no_job_is_begun_without_the_means_for_a_dispute() -> None:
    """Money that the jobs at hand may still need is not there for another."""
    means = Means(Settings(max_fee_gwei=50.0, gas_budget=0.2))
    need = TERMS.bond_wei + ETHER // 5
    assert means.find_obstacle(need, TERMS) is None
    assert "fund it" in str(means.find_obstacle(need - 1, TERMS))
    means.take(0, 0, TERMS.bond_wei)
    assert means.find_obstacle(need + TERMS.bond_wei + means.dispute_wei, TERMS) is None
    assert means.find_obstacle(need + TERMS.bond_wei + means.dispute_wei - 1, TERMS)
    means.note(0, Call("commit", "0x", (), TERMS.bond_wei), ETHER // 100)
    assert means.find_obstacle(need + means.dispute_wei - ETHER // 100, TERMS) is None
    means.release(0)
    assert means.find_obstacle(need, TERMS) is None


def test_a_budget_below_a_dispute_is_refused() -> None:
    """Whoever allows less than a dispute may cost at the highest fee is told so."""
    means = Means(Settings(max_fee_gwei=500.0, gas_budget=0.2))
    assert "raise the budget" in str(means.find_obstacle(100 * ETHER, TERMS))


def test_beyond_the_budget_only_what_the_bond_is_worth_is_paid() -> None:
    """A job goes on within its budget, and beyond it while the rest costs less than the bond."""
    means = Means(Settings(gas_budget=0.1))
    means.take(0, ETHER // 5, 0)
    cheap, dear = 10**9, ETHER // MATCH_GAS
    assert means.may_go_on(0, 1, cheap, TERMS.bond_wei)
    assert not means.may_go_on(0, 1, dear, TERMS.bond_wei)
    assert means.may_go_on(1, 0, cheap, 0)
