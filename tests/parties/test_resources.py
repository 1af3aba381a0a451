"""The resources of a party: whoever is told that it may join has enough, and never falls silent."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.model.types import MIN_BOND_WEI, Pair
from offchain.chain.accounts.budget import calculate_reserve
from offchain.chain.accounts.fees import GWEI, FeePolicy, calculate_fees
from offchain.chain.receipts import Address, Transaction
from offchain.disputes.gas import MATCH_GAS, MOST_GAS, calculate_crowd_gas, calculate_gas_limit
from offchain.disputes.referee import Call
from offchain.disputes.terms import make_terms
from offchain.parties.resources import Resources, Stand
from offchain.parties.settings import Settings
from sim.paper import Size, make_task
from tests.parties.crowds import Case, Result, play

TERMS = replace(make_terms(make_task(Size())), bond_wei=MIN_BOND_WEI)
ETHER = 10**18
SENDER = Address("0x" + "07" * 20)


def make_pairs(count: int) -> list[Pair]:
    """Return so many matches of one account."""
    return [Pair(0, "0x0", f"0x{number:x}") for number in range(1, count + 1)]


def stand(live: int, *, won: int = 0, met: int | None = None, share_wei: int = 0) -> Stand:
    """Return how an account stands that plays so many matches for the least bond."""
    bond_wei, prize_wei = MIN_BOND_WEI, MIN_BOND_WEI // 2
    met = live + won if met is None else met
    return Stand(0, bond_wei, prize_wei, share_wei, won, met, make_pairs(live))


def find_need(resources: Resources) -> int:
    """Return the least balance with which a job may be begun."""
    need = TERMS.bond_wei + resources.crowd_wei
    assert resources.find_obstacle(need, TERMS) is None
    assert "fund it" in str(resources.find_obstacle(need - 1, TERMS))
    return need


@given(st.integers(1, 2_000), st.integers(1, 500), st.data())
def test_whoever_may_join_goes_on_to_the_end(crowd: int, gwei: int, data: st.DataObject) -> None:
    """At no fee up to the highest and against no crowd up to the one stated is a job given up."""
    resources = Resources(Settings(crowd=crowd, max_fee_gwei=float(gwei)))
    find_need(resources)
    met = data.draw(st.integers(0, crowd))
    live = data.draw(st.integers(0, met))
    spent_wei = data.draw(st.integers(0, resources.crowd_wei))
    resources.take(0, spent_wei, 0)
    price_wei = data.draw(st.integers(1, gwei)) * GWEI
    assert resources.may_go_on(stand(live, met=met), price_wei)


@given(st.integers(1, 60), st.integers(1, 500), st.data())
def test_whoever_may_join_can_send_to_the_end(crowd: int, gwei: int, data: st.DataObject) -> None:
    """Each call of a crowd's matches finds what it reserves, beside all others that wait.

    Calls take the most that is known; all matches have one under way, in an order that is drawn.
    """
    resources = Resources(Settings(crowd=crowd, max_fee_gwei=float(gwei)))
    ceiling_wei = gwei * GWEI
    base_wei = data.draw(st.integers(0, ceiling_wei))
    fees = calculate_fees(
        base_wei, FeePolicy(max_fee_wei=ceiling_wei, tip_wei=min(GWEI, ceiling_wei))
    )
    balance_wei = find_need(resources)
    dear = ["enter_claimed"] * 2 + ["enter_tensor"] * 2 + ["pick_element", "leaf"]
    moves = ["start_match", *["pick_segment"] * 18, *dear]
    rounds = [["commit"], ["reveal"], *[[move] * crowd for move in moves]]
    rounds += [["start_match"] * crowd, ["timeout"] * crowd, ["settle"], ["collect"]]
    for calls in rounds:
        reserves = [reserve(call, fees.max_fee_wei) for call in calls]
        assert sum(reserves) <= balance_wei
        value_wei = TERMS.bond_wei * (calls == ["commit"])
        balance_wei -= sum(MOST_GAS[call] for call in calls) * ceiling_wei + value_wei
    assert balance_wei >= 0


def reserve(call: str, max_fee_wei: int) -> int:
    """Return what the sender wants to have for a call."""
    value_wei = TERMS.bond_wei * (call == "commit")
    gas_limit = calculate_gas_limit(call, b"\x01" * (4_096 * (call == "leaf")))
    offered = Transaction(1, call, SENDER, SENDER, b"", value_wei, gas_limit)
    fees = calculate_fees(max_fee_wei, FeePolicy(max_fee_wei=max_fee_wei, tip_wei=0))
    return calculate_reserve(offered, fees)


@given(
    balance=st.integers(0, 10**21),
    more=st.integers(0, 10**20),
    crowd=st.integers(1, 2_000),
    fewer=st.integers(0, 2_000),
    gwei=st.integers(1, 500),
    less=st.integers(0, 500),
)
def test_more_money_fewer_liars_and_lower_fees_never_forbid_a_job(
    *, balance: int, more: int, crowd: int, fewer: int, gwei: int, less: int
) -> None:
    """Whoever may join may with more money, against fewer, and with a lower highest fee."""
    told = Resources(Settings(crowd=crowd, max_fee_gwei=float(gwei))).find_obstacle(balance, TERMS)
    easier = Settings(crowd=max(0, crowd - fewer), max_fee_gwei=float(max(1, gwei - less)))
    eased = Resources(easier).find_obstacle(balance + more, TERMS)
    assert told is not None or eased is None


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(1, 1_000))
def test_no_number_of_matches_is_too_large_where_each_is_worth_its_gas(
    live: int, won: int, gwei: int
) -> None:
    """Beyond the crowd, and beyond the budget, a prize above a match's gas is always played for."""
    resources = Resources(Settings(crowd=1, max_fee_gwei=float(gwei)))
    resources.take(0, 10**24, 0)
    price_wei = gwei * GWEI
    goes_on = resources.may_go_on(stand(live, won=won), price_wei)
    assert goes_on or MATCH_GAS * price_wei > MIN_BOND_WEI // 2


@given(st.integers(1, 500), st.integers(0, 500), st.integers(1, 500), st.integers(0, 500))
def test_lower_fees_and_more_to_win_never_end_a_job(
    live: int, won: int, gwei: int, less: int
) -> None:
    """Whoever goes on would with a lower price, a larger share or more prizes."""
    resources = Resources(Settings(crowd=4, max_fee_gwei=50.0))
    resources.take(0, ETHER, 0)
    now = stand(live, met=live)
    better = replace(now, won=won, share_wei=won)
    if resources.may_go_on(now, gwei * GWEI):
        assert resources.may_go_on(better, max(1, gwei - less) * GWEI)


def test_what_a_match_has_taken_is_not_to_be_paid_again() -> None:
    """Near the end of its matches a job is worth its rest, however many they are."""
    resources = Resources(Settings(crowd=1, max_fee_gwei=200.0))
    resources.take(0, 100 * ETHER, 0)
    many = stand(150)
    assert not resources.may_go_on(many, 200 * GWEI)
    for pair in many.live:
        resources.note(0, Call("descend", "0x0", (pair,)), MATCH_GAS - 100_000, 0)
    assert resources.may_go_on(many, 200 * GWEI)
    resources.release(0)
    assert not resources.used_gas


def test_money_of_the_jobs_at_hand_is_not_there_for_another() -> None:
    """What jobs may still need is set aside until they are over, and what they spent no more."""
    resources = Resources(Settings(max_fee_gwei=50.0, crowd=3))
    need = find_need(resources)
    resources.take(0, 0, TERMS.bond_wei)
    assert resources.find_obstacle(2 * need, TERMS) is None
    assert resources.find_obstacle(2 * need - 1, TERMS)
    resources.note(0, Call("commit", "0x", (), TERMS.bond_wei), 50_000, GWEI)
    assert resources.find_obstacle(need + resources.crowd_wei - 50_000 * GWEI, TERMS) is None
    resources.release(0)
    find_need(resources)


def test_a_budget_below_what_the_crowd_may_cost_is_refused() -> None:
    """Whoever allows less than it may cost is told how much that is."""
    resources = Resources(Settings(max_fee_gwei=200.0, gas_budget=1.0))
    told = str(resources.find_obstacle(100_000 * ETHER, TERMS))
    assert "raise the budget" in told
    assert f"{calculate_crowd_gas(100) * 200 * GWEI:,}" in told


@pytest.mark.parametrize(
    "case",
    [
        *(Case(18, gwei, is_at_once) for gwei in (5, 40, 200) for is_at_once in (True, False)),
        Case(32, 200, is_at_once=True),
        Case(32, 40, is_at_once=False, roots=2),
    ],
    ids=str,
)
def test_a_crowd_is_beaten_with_what_the_check_asks_for(case: Case) -> None:
    """Liars at once, or one after another, leave nothing unsent and cost no bond.

    With a wei less the provider does not join.
    """
    found = play(case)
    assert isinstance(found, Result)
    assert found.has_won
    assert not found.shortages
    assert found.gas <= calculate_crowd_gas(case.liars)
    assert "fund it" in str(play(case, missing_wei=1))


def test_a_crowd_beyond_the_one_stated_is_beaten_where_its_prizes_pay() -> None:
    """Whoever fears two and meets eighteen at once goes on, with money for them."""
    case = Case(18, 5, is_at_once=True)
    found = play(case, feared=2, missing_wei=-(10**19))
    assert isinstance(found, Result)
    assert found.has_won


@pytest.mark.slow
@pytest.mark.parametrize("roots", [1, 2])
@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize("gwei", [5, 40, 200])
@pytest.mark.parametrize("liars", [32, 300, 1_000])
def test_a_large_crowd_is_beaten_with_what_the_check_asks_for(
    *, liars: int, gwei: int, is_at_once: bool, roots: int
) -> None:
    """So are crowds of any size that the provider was told it can withstand."""
    found = play(Case(liars, gwei, is_at_once, roots))
    assert isinstance(found, Result)
    assert found.has_won
    assert not found.shortages
