"""The turns of a party that plays several jobs: what is sent, and what is not sent again."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from moot.contracts.model.types import Pair
from moot.contracts.reasons import Reason, Revert, Standing
from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.play.arena import Made
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.gas import MOVE_GAS
from moot.offchain.disputes.referee.port import Call
from moot.offchain.errors import StoreError
from moot.offchain.parties import turns
from moot.offchain.parties.context import PartyContext, StandIn
from moot.offchain.parties.turns import Seat, note_refusal, take_turns
from moot.offchain.parties.watcher import Doubter

OWN, OTHER = "0x" + "01" * 20, "0x" + "02" * 20
TRUE, WRONG = b"\1" * 32, b"\2" * 32


class Talker(Party):
    """A party that has some calls to make; `slow` is called before each."""

    def __init__(self, names: Sequence[str], slow: Any = lambda: None) -> None:
        super().__init__([SimpleNamespace(address=OWN)])  # type: ignore[list-item] # an address is all
        self._names, self._slow = names, slow

    def act(self, view: View) -> Iterator[Call]:
        """Yield the calls."""
        del view
        for name in self._names:
            self._slow()
            yield Call(name, OWN, ())


def make_seat(party: Party, deadline: int, job_id: int = 0) -> Seat:
    """Return a seat in a match whose clock runs out in a block."""
    board = SimpleNamespace(position=SimpleNamespace(deadline=deadline))
    job = SimpleNamespace(commit_deadline=1, reveal_deadline=1)
    boards = {Pair(job_id, OWN, OTHER): board}
    known = SimpleNamespace(boards=boards, job_id=job_id)
    view: Any = SimpleNamespace(tournament=known, job=job, block=10)
    return Seat(view, party)


@pytest.fixture
def context() -> Any:
    """A context whose referee takes every call, in blocks with room for few."""
    referee = SimpleNamespace(
        block_gas=lambda: 8 * MOVE_GAS, transact_all=lambda calls: [None for _ in calls], returns=0
    )
    return SimpleNamespace(referee=referee, settings=SimpleNamespace(block_seconds=1.0))


def test_what_ends_sooner_is_sent_first(context: PartyContext) -> None:
    """Calls go in the order of the clocks of one's own matches, up to one's share of a block."""
    seats = [make_seat(Talker(["late"] * 3), 30), make_seat(Talker(["soon"] * 3), 20)]
    names = [made.call.name for _, made in take_turns(context, seats)]
    assert names == ["soon", "soon", "soon", "late"]


def test_a_slow_answer_does_not_hold_up_what_is_planned(
    context: PartyContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a block's time of planning the party sends what it has, and looks again."""
    now = [0.0]
    monkeypatch.setattr(turns.time, "monotonic", lambda: now[0])

    def think() -> None:
        now[0] += 0.6

    seats = [make_seat(Talker(["a", "b", "c"], think), 20), make_seat(Talker(["d"]), 30)]
    assert [made.call.name for _, made in take_turns(context, seats)] == ["a", "b"]


def test_a_run_that_fails_stops_no_other_match(context: Any) -> None:
    """What is wrong with one job's files is said once, and the other jobs go on."""
    told: list[str] = []
    context.tell = lambda event, line, **_: told.append(f"{event} {line}")

    def fail() -> None:
        raise StoreError("the disk is full")

    seats = [make_seat(Talker(["a"], fail), 20, 7), make_seat(Talker(["b"]), 30)]
    for _ in range(2):
        assert [made.call.name for _, made in take_turns(context, seats)] == ["b"]
    assert told == ["failed job 7: the disk is full"]


@pytest.mark.parametrize(
    ("reason", "is_sent_again"),
    [(Reason.STALE, True), (Reason.TOO_EARLY, True), (Reason.BAD_PROOF, False)],
)
def test_what_is_refused_for_good_is_not_paid_for_again(
    context: PartyContext, *, reason: Reason, is_sent_again: bool
) -> None:
    """A call that was overtaken or too early may be due again; one that is wrong never is."""
    seat = make_seat(Talker(["move"]), 20)
    ((_, made),) = take_turns(context, [seat])
    note_refusal(seat, Made(made.call, Revert(reason)))
    assert bool(take_turns(context, [seat])) is is_sent_again


def test_what_another_chain_has_refused_is_tried_on_this_one(context: Any) -> None:
    """Nothing that was refused in blocks that are gone says anything of those in their place."""
    seat = make_seat(Talker(["reveal"]), 20)
    ((_, made),) = take_turns(context, [seat])
    note_refusal(seat, Made(made.call, Revert(Reason.NOT_COMMITTED)))
    assert not take_turns(context, [seat])
    context.referee.returns = 1
    assert [it.call.name for _, it in take_turns(context, [seat])] == ["reveal"]


NAMED = 7


@pytest.mark.parametrize(
    ("claims", "block", "standing", "joins"),
    [
        ([WRONG], 20, Standing.NONE, True),
        ([WRONG], 21, Standing.NONE, False),
        ([WRONG, TRUE], 20, Standing.NONE, False),
        ([], 20, Standing.NONE, False),
        ([WRONG], 20, Standing.LATE, False),
    ],
)
def test_a_watcher_joins_only_where_all_are_wrong(
    *, claims: Sequence[bytes], block: int, standing: Standing, joins: bool
) -> None:
    """It bonds a claim in time, once, if there are claims and none of them is right."""
    terms = SimpleNamespace(window_blocks=10, bond_wei=5)
    known = SimpleNamespace(get_claims=lambda: dict.fromkeys(claims), job_id=3, terms=terms)
    job = SimpleNamespace(reveal_deadline=10, terms=terms)
    view: Any = SimpleNamespace(
        tournament=known, job=job, block=block, get_standing=lambda _: standing, named=NAMED
    )
    run: Any = SimpleNamespace(history=SimpleNamespace(top=TRUE))
    calls = [(call.name, call.args) for call in Doubter("watcher", OWN, run).enter(view)]
    assert calls == ([("join", (3, TRUE, NAMED))] if joins else [])


@pytest.mark.parametrize(
    ("place", "patience", "first"), [(0, 4, 14), (1, 4, 15), (5, 4, 15), (None, 4, 14), (3, 0, 10)]
)
def test_those_who_stand_in_do_so_one_after_another(
    *, place: int | None, patience: int, first: int
) -> None:
    """After the client's time those who claimed later wait longer, twice that time at most."""
    settle = Call("settle", OWN, (3,))
    other: Any = SimpleNamespace(move=lambda *_: None, manage=lambda _: [settle], address=OWN)
    member: Any = SimpleNamespace(address=OWN)
    party = StandIn([member], [other], patience_blocks=patience)
    claimed = [f"0x{it:040x}" for it in range(9)]
    if place is not None:
        claimed[place] = OWN
    known = SimpleNamespace(contenders=dict.fromkeys(claimed), boards={})
    views: list[Any] = [SimpleNamespace(tournament=known, block=block) for block in range(10, 30)]
    assert next(view.block for view in views if [*party.dispute(view)]) == first
