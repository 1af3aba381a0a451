"""The resources of a party: whoever is told that it may join has enough, and never falls silent."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.contracts.model.types import MIN_BOND_WEI, Job, Member, Pair
from moot.contracts.reasons import Standing
from moot.offchain.chain.accounts.budget import calculate_reserve
from moot.offchain.chain.accounts.fees import GWEI, FeePolicy, calculate_fees
from moot.offchain.chain.receipts import Address, Transaction
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.gas import (
    END_GAS,
    MATCH_GAS,
    MOST_GAS,
    calculate_crowd_gas,
    calculate_gas_limit,
)
from moot.offchain.disputes.referee.port import Call
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.parties.resources import Resources, Stand, make_stand
from moot.offchain.parties.settings import Settings
from moot.sim.synthetic.products import Size, make_task
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


def test_a_stand_is_what_the_chain_shows() -> None:
    """Matches of others count for nothing; a prize for each that is won, a share if not late."""
    me, other, third = (Address("0x" + f"{it:02x}" * 20) for it in (1, 2, 3))
    job = Job(other, TERMS, 100, opened_block=1, window_end=0)
    mine, played, over = Pair(4, me, other), Pair(4, other, third), Pair(4, third, me)
    foreign = Pair(4, other, Address("0x" + "04" * 20))
    known = Tournament(4, TERMS)
    known.contenders = {me: b"a", other: b"b", third: b"a"}
    known.boards = dict.fromkeys((mine, played))  # type: ignore[assignment] # only the pairs count
    known.ended = [SimpleNamespace(board=SimpleNamespace(pair=it)) for it in (over, foreign)]  # type: ignore[misc] # likewise
    member = Member(standing=Standing.REVEALED, prizes=3)
    found = make_stand(me, job, member, known)
    assert found == Stand(4, TERMS.bond_wei, TERMS.prize_wei, 50, won=3, met=2, live=[mine])
    assert found.stake_wei == TERMS.bond_wei + 50 + 4 * TERMS.prize_wei
    assert make_stand(third, job, member, known).met == 2
    late = replace(member, standing=Standing.LATE)
    assert make_stand(me, job, late, known).share_wei == 0
    known.contenders = {}
    assert make_stand(me, job, member, known).share_wei == 100


@given(st.lists(st.integers(0, 3 * MATCH_GAS), max_size=6), st.booleans())
def test_the_rest_of_a_job_is_its_end_and_what_its_matches_may_still_take(
    used: list[int],
    is_noted_twice: bool,  # noqa: FBT001 - drawn
) -> None:
    """A match that took more than is known of any may still take its last move."""
    resources = Resources(Settings(crowd=1, max_fee_gwei=1.0))
    now = stand(len(used))
    for pair, gas in zip(now.live, used, strict=True):
        call = Call("descend", "0x0", (pair,))
        parts = (gas // 2, gas - gas // 2) if is_noted_twice else (gas,)
        for part in parts:
            resources.note(0, call, part, GWEI)
    rests = [max(MATCH_GAS - gas, MOST_GAS["leaf"]) for gas in used]
    assert resources.calculate_rest(now) == END_GAS + sum(rests)
    assert resources.calculate_rest(stand(1, met=9)) == END_GAS + (rests[0] if rests else MATCH_GAS)
    assert resources.spent_wei.get(0, 0) == sum(used) * GWEI


def test_a_job_is_left_where_it_costs_as_much_as_it_is_worth_and_no_sooner() -> None:
    """Beyond what it was told to withstand and to spend, the rest is weighed against the stake."""
    crowd_wei = calculate_crowd_gas(1) * GWEI
    resources = Resources(Settings(crowd=1, max_fee_gwei=1.0))
    assert (resources.ceiling_wei, resources.crowd_wei) == (GWEI, crowd_wei)
    assert resources.budget_wei == crowd_wei
    now = replace(stand(2), prize_wei=0)
    rest_gas = resources.calculate_rest(now)
    worth_it = replace(now, bond_wei=rest_gas * GWEI + 1)
    not_worth_it = replace(now, bond_wei=rest_gas * GWEI)
    assert resources.may_go_on(replace(not_worth_it, met=1), GWEI)
    resources.take(0, crowd_wei, 0)
    assert resources.may_go_on(worth_it, GWEI)
    assert not resources.may_go_on(not_worth_it, GWEI)
    paid = Resources(Settings(crowd=1, max_fee_gwei=1.0, gas_budget=1.0))
    many = replace(stand(2_000), bond_wei=0, prize_wei=0)
    rest_wei = paid.calculate_rest(many)
    paid.take(0, ETHER - rest_wei, 0)
    assert paid.may_go_on(many, 1)
    paid.take(0, ETHER - rest_wei + 1, 0)
    assert not paid.may_go_on(many, 1)
    unspent = Resources(replace(paid.settings, gas_budget=rest_wei / ETHER))
    assert unspent.budget_wei == rest_wei
    assert unspent.may_go_on(many, 1)


def test_a_budget_as_large_as_the_crowd_may_cost_is_accepted() -> None:
    """To the wei; and a call without a value leaves its job's bond set aside."""
    enough = Resources(Settings(crowd=1, max_fee_gwei=1.0))
    exact = Resources(replace(enough.settings, gas_budget=enough.crowd_wei / ETHER))
    assert exact.budget_wei == exact.crowd_wei
    assert exact.find_obstacle(10**30, TERMS) is None
    exact.take(3, 0, 7)
    exact.note(3, Call("reveal", "0x0", (3, Pair(4, "0x0", "0x1"))), 10, GWEI)
    assert (exact.bonds_wei, exact.spent_wei, exact.used_gas) == ({3: 7}, {3: 10 * GWEI}, {})
    exact.note(5, Call("commit", "0x0", (5,), 1), 2, GWEI)
    exact.note(5, Call("reveal", "0x0", ()), 3, GWEI)
    assert (exact.bonds_wei, exact.spent_wei) == ({3: 7, 5: 0}, {3: 10 * GWEI, 5: 5 * GWEI})
    pairs = [Pair(3, "0x0", "0x1"), Pair(5, "0x0", "0x1")]
    for pair in pairs:
        exact.note(pair.job_id, Call("leaf", "0x0", (pair,)), 1, 0)
    exact.release(3)
    assert (exact.bonds_wei, exact.used_gas) == ({5: 0}, {pairs[1]: 1})
    exact.release(3)
    assert [*exact.spent_wei] == [5]


def test_a_job_that_has_spent_more_than_a_crowd_may_cost_needs_no_more() -> None:
    """It sets nothing free for another, either."""
    resources = Resources(Settings(crowd=1, max_fee_gwei=1.0))
    need = find_need(resources)
    resources.take(0, 10 * resources.crowd_wei, 0)
    assert find_need(resources) == need
    told = str(resources.find_obstacle(need - 7, TERMS))
    assert f"{need:,} wei, 7 more than it does" in told


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
