"""Premiums for results, on the model and on the bytecode in lock-step."""

import random
from dataclasses import replace
from typing import Any

import pytest

from moot.contracts.reasons import PremiumStatus, PromiseStatus, Reason
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree
from moot.offchain.disputes.availability.calldata import ShownChunk
from moot.offchain.disputes.availability.delivery import Buyer, Sharer, register
from moot.offchain.disputes.availability.demands import Asker, Lack, Place, list_demand
from moot.offchain.parties.buying import find_lack
from tests.lockstep.spoiling import spoil
from tests.quick import every
from tests.referee.deliveries import (
    BEYOND,
    DEPOSIT_WEI,
    HISTORY,
    LATE,
    PLACES,
    PREMIUM_WEI,
    SHARERS,
    STATE_ROOT,
    STRANGER,
    WINDOW_BLOCKS,
    Deliveries,
    find,
    prove,
    win_with_premium,
)
from tests.referee.promises import TASK
from tests.referee.stage import ACCOUNTS, CLIENT

ALL = Lack(PLACES, len(PLACES), {it[:2]: proof for it in PLACES if (proof := prove(it))})


@pytest.fixture
def both() -> Deliveries:
    """A job that is won, for whose result there is a premium."""
    return win_with_premium()


def test_every_part_of_a_result_can_be_shown(both: Deliveries) -> None:
    """Each chunk, ragged and empty ones too; nothing else of a job."""
    assert both.demand(CLIENT, PLACES[0]) == Reason.NO_SUCH_PROMISE
    assert both.register(SHARERS[0]) is None
    for place in PLACES:
        assert both.show(STRANGER, place) == Reason.NO_SUCH_DEMAND
        assert both.demand(CLIENT, place) is None
        assert both.demand(STRANGER, place) == Reason.DEMANDED
        assert both.show(SHARERS[1], place) is None
    for part in ((0, 0, 0), (2, 0, 0), (1, 3, 0), (3, 0, 0)):
        assert both.demand(CLIENT, part) == Reason.NO_SUCH_PART
    assert both.vault.promises[both.result].open_demands == 0


@pytest.mark.parametrize("count", every(6, [1, 2, 3]))
def test_sharers_take_equal_parts_and_nothing_is_left(both: Deliveries, count: int) -> None:
    """Whoever has registered shares the premium, up to one wei alike; nobody else does."""
    for sharer in SHARERS[:count]:
        assert both.register(sharer) is None
        assert both.register(sharer) == Reason.REGISTERED
    both.block += WINDOW_BLOCKS
    assert both.call("take", SHARERS[0], both.result) == Reason.PROMISE_DUE
    both.block += 1
    before = dict(both.balances)
    for sharer in SHARERS[:count]:
        assert both.call("take", sharer, both.result) is None
        assert both.call("take", sharer, both.result) == Reason.NO_SHARE
    paid = [both.balances[it] - before[it] for it in SHARERS[:count]]
    assert sum(paid) == PREMIUM_WEI
    assert max(paid) - min(paid) <= 1
    for other in (CLIENT, LATE, STRANGER, *SHARERS[count:]):
        assert both.call("take", other, both.result) == Reason.NO_SHARE
    assert both.vault.balance_wei == both.vault.burned_wei == 0


def test_a_history_of_one_state_needs_no_siblings() -> None:
    """The proof is empty where there is one checkpoint, which is the result; steps round up."""
    for steps, history in (
        (3, Tree(Tag.HISTORY_NODE, [STATE_ROOT])),
        (2, Tree(Tag.HISTORY_NODE, [b"\1" * 32, STATE_ROOT])),
    ):
        both = Deliveries(replace(TASK, checkpoint_every=steps))
        both.offer()
        both.win(history)
        assert both.register(SHARERS[0], history) is None


@pytest.mark.parametrize("seed", every(6, range(8)))
def test_drawn_calls_in_lockstep(seed: int) -> None:
    """Calls in any order, of which every third has one wrong argument, do the same on both."""
    rng, both = random.Random(seed), Deliveries()
    places = rng.sample(PLACES + BEYOND, 5)
    end = rng.choice((0, 8, 8, 8, 20))
    for turn in range(150):
        if turn == end:
            _close(rng, both)
        name, args, value_wei = draw(rng, both, rng.choice(places))
        args = spoil(rng.choice, args, ACCOUNTS) if rng.random() < 0.25 else args
        value_wei += rng.random() < 0.05
        both.call(name, rng.choice((*ACCOUNTS[:5], *SHARERS)), *args, value_wei=value_wei)
        both.block += rng.choice((0, 0, 0, 0, 1, 2))


def _close(rng: random.Random, both: Deliveries) -> None:
    """Let the job end: mostly it is won, at times by nobody."""
    block = both.block
    if rng.random() < 0.8:
        both.win()
    else:
        both.settle()
    both.block = max(block, both.block)


def draw(
    rng: random.Random, both: Deliveries, place: tuple[int, int, int]
) -> tuple[str, tuple[Any, ...], int]:
    """Return some call about a place: its name, arguments and value."""
    names = ["demand"] * 5 + ["show"] * 5 + ["offer", "register"] * 3 + ["take"] * 2
    name = rng.choice((*names, "call_for", "break_promise", "reclaim", "withdraw"))
    match name:
        case "offer":
            deposit_wei = rng.choice((DEPOSIT_WEI, 10**16, 10**16 - 1))
            premium_wei = rng.choice((10**18 + 7, 3 * 10**16, 10**16))
            blocks = (rng.choice((0, 1, 9)), rng.choice((0, 15, 15)))
            return name, (both.subject, deposit_wei, *blocks), premium_wei
        case "register":
            proof = tuple(HISTORY.proof(2))
            return name, (both.subject, HISTORY.top, STATE_ROOT, proof), 0
        case "demand":
            promise = both.vault.promises.get(both.result)
            args = list_demand(place, prove(place))
            return name, (both.result, *args), promise.deposit_wei if promise else 0
        case "show":
            move = find(place)
            return move.call, (both.result, *move.args), 0
        case "call_for" | "withdraw" | "take":
            return name, (both.result if name == "take" else both.subject,), 0
    return name, (both.result, *place), 0


def test_actors_hand_a_result_over_and_are_paid(both: Deliveries) -> None:
    """Sharers register, show what the client demands as few times as can be, and take parts."""
    sharers = [Sharer(it, find) for it in SHARERS[:2]]
    client, asker = Buyer(CLIENT), Asker(CLIENT, ALL, len(PLACES) * DEPOSIT_WEI)
    for sharer in sharers:
        assert both.view().can_be_promised
        assert both.make(register(sharer.address, both.view(), HISTORY)) is None
    refused, before = 0, dict(both.balances)
    while both.vault.shares:
        promised = both.view().promised
        assert promised is not None
        calls = [*asker.act(promised), *client.act(both.view())]
        calls += [call for sharer in sharers for call in sharer.act(both.view())]
        refused += sum(both.make(call) is not None for call in calls)
        both.block += 1
    assert refused == 0
    assert {it.status.name for it in both.vault.demands.values()} == {"SHOWN"}
    earned = both.balances[SHARERS[0]] - before[SHARERS[0]]
    assert earned == len(PLACES) * DEPOSIT_WEI + PREMIUM_WEI // 2
    assert both.vault.balance_wei == 0


def test_a_client_that_has_nothing_of_a_result_gets_all_of_it(both: Deliveries) -> None:
    """It demands first chunks, and by their answers all others, within the same budget."""
    both.make(register(SHARERS[0], both.view(), HISTORY))
    places, shown = PLACES, dict[Place, ShownChunk]()
    rounds = []
    while len(shown) < len(places):
        asker = Asker(CLIENT, find_lack(places, shown), len(places) * DEPOSIT_WEI)
        promised = both.view().promised
        assert promised is not None
        calls = [*asker.act(promised)]
        assert all(both.make(it) is None for it in calls)
        rounds.append([call.args[1:4] for call in calls])
        for place in rounds[-1]:
            assert both.show(SHARERS[0], place) is None
            shown[place] = ShownChunk(*find(place).args)
        both.block += 1
    assert rounds == [[it for it in places if not it[2]], [it for it in places if it[2]]]


def test_the_second_sharer_answers_where_the_first_does_not(both: Deliveries) -> None:
    """It waits a block longer, and half of the time at most."""
    first, second = (Sharer(it, find) for it in SHARERS[:2])
    for sharer in (first, second):
        both.make(register(sharer.address, both.view(), HISTORY))
    both.demand(CLIENT, PLACES[0])
    both.block += 1
    assert [it.name for it in first.act(both.view())] == ["show_chunk"]
    assert [*second.act(both.view())] == []
    both.block += 1
    (call,) = second.act(both.view())
    assert both.make(call) is None


def test_actors_give_a_premium_back_that_nobody_earns(both: Deliveries) -> None:
    """If nobody answers, the client has all of the premium, and whoever asked its deposit."""
    sharer, client = Sharer(SHARERS[0], find), Buyer(CLIENT)
    both.make(register(sharer.address, both.view(), HISTORY))
    before = dict(both.balances)
    askers = [
        Asker(it, Lack([place], 1), 10**18)
        for it, place in zip((CLIENT, STRANGER), PLACES, strict=False)
    ]
    for _ in range(12):
        for asker in askers:
            promised = both.view().promised
            assert promised is not None
            assert all(both.make(it) is None for it in asker.act(promised))
        assert all(both.make(it) is None for it in client.act(both.view()))
        both.block += 1
    promised = both.view().promised
    assert promised is not None
    assert promised.promise.status is PromiseStatus.BROKEN
    assert [*sharer.act(both.view())] == []
    assert both.balances[CLIENT] - before[CLIENT] == PREMIUM_WEI
    assert both.balances[STRANGER] == before[STRANGER]
    assert both.vault.balance_wei == 0


def test_actors_call_for_a_result_that_nobody_promises(both: Deliveries) -> None:
    """The client waits a window, and then has its premium back."""
    client, before = Buyer(CLIENT), both.balances[CLIENT]
    for _ in range(WINDOW_BLOCKS + 3):
        assert all(both.make(it) is None for it in client.act(both.view()))
        both.block += 1
    assert both.view().premium.status is PremiumStatus.WITHDRAWN
    assert both.balances[CLIENT] - before == PREMIUM_WEI
    assert not both.view().can_be_promised
