"""Promises about a job's parts, on the model and on the bytecode in lock-step."""

import random
from dataclasses import replace
from typing import Any

import pytest

from moot.contracts.reasons import DemandStatus, Part, PromiseStatus, Reason
from moot.offchain.disputes.availability.demands import (
    Answerer,
    Asker,
    Lack,
    find_answer,
    list_demand,
)
from tests.lockstep.spoiling import spoil
from tests.quick import every
from tests.referee.promises import BEYOND, LAST_BLOCK, PLACES, TASK, Promises, prove
from tests.referee.stage import ACCOUNTS, CLIENT, PROVIDERS

PROOFS = {place[:2]: proof for place in PLACES if (proof := prove(TASK, place))}


def test_everything_that_a_job_commits_to_can_be_shown() -> None:
    """Each operator and chunk, ragged and empty ones too."""
    both = Promises()
    assert both.promise() is None
    for place in PLACES:
        assert both.show(CLIENT, place) == Reason.NO_SUCH_DEMAND
        assert both.demand(PROVIDERS[0], place) is None
        assert both.demand(PROVIDERS[1], place) == Reason.DEMANDED
        assert both.show(PROVIDERS[2], place) is None
        assert both.show(PROVIDERS[2], place) == Reason.NO_SUCH_DEMAND
        assert both.demand(PROVIDERS[0], place) == Reason.DEMANDED
    assert both.vault.promises[both.subject].open_demands == 0


@pytest.mark.parametrize("seed", every(6, range(8)))
def test_drawn_calls_in_lockstep(seed: int) -> None:
    """Calls in any order, of which every third has one wrong argument, do the same on both."""
    rng, both = random.Random(seed), Promises()
    places = rng.sample(PLACES + BEYOND, 8)
    for _ in range(120):
        name, args, value_wei = draw(rng, both, rng.choice(places))
        args = spoil(rng.choice, args, ACCOUNTS) if rng.random() < 0.3 else args
        value_wei += rng.random() < 0.05
        both.call(name, rng.choice(ACCOUNTS[:4]), *args, value_wei=value_wei)
        both.block += rng.choice((0, 0, 0, 1, 2))


def draw(
    rng: random.Random, both: Promises, place: tuple[int, int, int]
) -> tuple[str, tuple[Any, ...], int]:
    """Return some call about a place: its name, arguments and value."""
    own, names = (both.subject,), ["demand"] * 5 + ["show"] * 5 + ["promise"] * 2
    name = rng.choice((*names, "break_promise", "reclaim", "withdraw"))
    match name:
        case "promise":
            deposit_wei = rng.choice((10**16, 10**16 + 5, 10**16 - 1))
            bond_wei = rng.choice((10**18, 2 * 10**16, 10**16))
            return name, (*own, deposit_wei, rng.choice((0, 1, 9)), rng.choice((1, 40))), bond_wei
        case "demand":
            promise = both.vault.promises.get(both.subject)
            args = list_demand(place, prove(TASK, place))
            return name, (*own, *args), promise.deposit_wei if promise else 0
        case "show":
            move = find_answer(TASK, place)
            return move.call, (*own, *move.args), 0
        case "withdraw":
            return name, own, 0
    return name, (*own, *place), 0


def test_actors_keep_a_promise_and_end_it() -> None:
    """An asker gets all that it lacks, if it can pay for it, and the client gets its bond back."""
    both = Promises()
    both.promise()
    deposit_wei = both.view().promise.deposit_wei
    poor, asker = (
        Asker(PROVIDERS[0], Lack(PLACES, len(PLACES), PROOFS), budget_wei)
        for budget_wei in (len(PLACES) * deposit_wei - 1, len(PLACES) * deposit_wei)
    )
    assert [*poor.act(both.view())] == []
    client, rest = Answerer(CLIENT, TASK), 0
    while both.view().promise.status is PromiseStatus.KEPT:
        calls = [*asker.act(both.view())]
        assert all(both.make(each) is None for each in calls)
        rest += len(calls)
        assert all(both.make(each) is None for each in client.act(both.view()))
        both.block += 1
    assert rest == len(PLACES)
    assert both.view().promise.status is PromiseStatus.WITHDRAWN
    assert both.block == LAST_BLOCK + 2
    shown = [d for d in both.view().demands.values() if d.status is DemandStatus.SHOWN]
    assert len(shown) == len(PLACES)
    assert both.vault.balance_wei == both.vault.burned_wei == 0


def test_an_asker_that_has_only_roots_demands_first_chunks_first() -> None:
    """Where nobody has shown a chunk of a tensor yet, its first one stands for each later one."""
    both = Promises()
    both.promise()
    places = [(Part.START, 0, 1), (Part.DATA, 0, 1), (Part.DATA, 0, 2), (Part.PROGRAM, 1, 0)]
    first = [(Part.DATA, 0, 0), (Part.PROGRAM, 1, 0)]
    known = {(Part.START, 0): PROOFS[Part.START, 0]}
    asker = Asker(PROVIDERS[0], Lack(places, 4, known), 10**18)
    calls = [*asker.act(both.view())]
    assert [call.args[1:4] for call in calls] == [places[0], *first]
    assert all(both.make(each) is None for each in calls)
    assert [*asker.act(both.view())] == []
    for place in (places[0], *first):
        both.show(CLIENT, place)
    taught = replace(asker, lack=Lack(places, 4, PROOFS))
    calls = [*taught.act(both.view())]
    assert [call.args[1:4] for call in calls] == places[1:3]
    assert all(both.make(each) is None for each in calls)


def test_actors_break_a_promise_that_is_not_kept() -> None:
    """If nobody answers, whoever asked has its deposits back and half the bond."""
    both = Promises()
    both.promise()
    before, bond_wei = both.balances[PROVIDERS[0]], both.view().promise.bond_wei
    asker = Asker(PROVIDERS[0], Lack([(Part.DATA, 0, 0), (Part.START, 1, 0)], 2), 10**18)
    for _ in range(12):
        for each in asker.act(both.view()):
            assert both.make(each) is None
        both.block += 1
    assert [*Answerer(CLIENT, TASK).act(both.view())] == []
    assert both.balances[PROVIDERS[0]] - before == bond_wei // 2
    assert both.vault.burned_wei == bond_wei - bond_wei // 2
    assert both.vault.balance_wei == 0
