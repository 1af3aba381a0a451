"""The frames of a record: their state is the referee's, and each move narrows what is left."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from moot.contracts.model.checks import name_job, name_match
from moot.contracts.model.types import Position, Store
from moot.contracts.reasons import LeafMode
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import connect
from moot.offchain.disputes.play.tournament import order_pair
from moot.offchain.record.books import Books
from moot.offchain.record.entries import Entry
from moot.offchain.record.numbers import LeafCall
from moot.offchain.record.reducer import Reducer
from moot.offchain.record.referee_log import RefereeLog
from moot.offchain.record.schema import Frame, Match
from moot.sim.synthetic.products import Lie
from tests.record_helpers import (
    CHAIN_ID,
    SCALAR,
    SILENT,
    SINK,
    SIZE,
    STAKES,
    Recorder,
    get_state,
    open_chain,
    open_model,
    reduce_model,
)

LATE = Lie(step=17, operator=3, element=0, term=69)
TABLES: dict[str, tuple[Lie, ...]] = {
    "scalar": (SCALAR,),
    "sink": (SINK,),
    "silent": (SILENT,),
    "two-in-one-claim": (SCALAR, SCALAR),
    "three-claims": (SCALAR, LATE, SINK),
    "nobody-lies": (Lie(step=10**6),),
}


def play(
    lies: tuple[Lie, ...],
    arithmetic: Arithmetic = ORDERED,
    leaf: LeafMode = LeafMode.SCALAR,
) -> Recorder:
    """Play a game on the model, and return what was recorded."""
    recorder, game = open_model(lies, arithmetic, leaf)
    assert list(game.play())
    return recorder


@pytest.mark.parametrize("table", TABLES)
def test_the_state_is_the_models_after_every_call(table: str) -> None:
    """After each call, what the events say is what the model of the referee remembers."""
    recorder, game = open_model(TABLES[table])
    reducer = Reducer(recorder.address, CHAIN_ID, ORDERED)
    frames: list[Frame] = []
    for _ in game.play():
        frames += reducer.reduce(recorder.entries[len(frames) :])
        assert get_state(reducer.books.store) == get_state(recorder.store)
    assert len(frames) == len(recorder.entries) >= 8


def test_late_members_are_counted_as_the_model_counts_them() -> None:
    """Who joins a known claim late is a contender of it, shares nothing, and can be defeated."""
    recorder, game = open_model((SCALAR,))
    late = f"0x{0xFE:040x}"
    recorder._referee._balances[late] = 10**24
    reducer = Reducer(recorder.address, CHAIN_ID, ORDERED)
    done = 0
    for played in game.play():
        if played.call == "start_match" and (0, late) not in recorder.store.members:
            top = game.players[1].claim  # type: ignore[attr-defined]
            args = (0, top, name_job(recorder.store, 0))
            recorder.transact("join", *args, sender=late, value_wei=STAKES.bond_wei)
        frames = reducer.reduce(recorder.entries[done:])
        done += len(frames)
        assert get_state(reducer.books.store) == get_state(recorder.store)
    joined = [it for frame in reduce_model(recorder)[1] for it in frame.members]
    assert [it.standing for it in joined if it.address == late] == ["late", "late", "defeated"]


@pytest.mark.parametrize("lost", ["Claimed", "Moved", "MatchEnded", "Settled", "Collected"])
def test_a_lost_entry_makes_another_state(lost: str) -> None:
    """A log without the last call of a kind is seen: its state is not the model's."""
    recorder = play(TABLES["three-claims"])
    entries = list(recorder.entries)
    place = max(i for i, it in enumerate(entries) if lost in {event.name for event in it.events})
    del entries[place]
    books = Books(Store(CHAIN_ID, recorder.address))
    try:
        for entry in entries:
            for event in entry.events:
                if entry.job is not None:
                    books.open(0, entry.job)
                books.apply(event, entry.block)
    except KeyError:
        return
    is_same = get_state(books.store) == get_state(recorder.store)
    # A move that another one follows leaves nothing behind.
    assert is_same == (lost == "Moved")


@pytest.mark.parametrize("arithmetic", [ORDERED, EXACT], ids=str)
def test_a_chain_and_a_model_make_the_same_frames(arithmetic: Arithmetic) -> None:
    """But for transactions and what they cost, the frames are those of the same game in memory."""
    with connect() as chain:
        game = open_chain(chain, (SCALAR,), arithmetic)
        start = chain.block_number()
        assert list(game.play())
        court = RefereeLog.find(chain, game.referee.address)  # type: ignore[arg-type]
        entries = court.read()
        reducer = Reducer(court.address, chain.chain_id, court.arithmetic)
        on_chain = reducer.reduce(entries)
        assert court.arithmetic == arithmetic
    recorder, twin = open_model((SCALAR,), arithmetic)
    model = recorder._referee
    accounts = [game.client, *(it.address for it in game.players)]
    model._balances = dict.fromkeys(accounts, 10**24)
    twin.client, twin.players = game.client, game.players
    model.store.address = game.referee.address
    model.mine(start)
    assert list(twin.play())
    _, in_memory = reduce_model(recorder)
    assert [strip(frame) for frame in on_chain] == [strip(frame) for frame in in_memory]
    assert all(frame.call.gas > 21_000 for frame in on_chain)
    assert len({frame.call.transaction for frame in on_chain}) == len(on_chain)


def strip(frame: Frame) -> Any:
    """Return a frame without the costs of its call."""
    shown: dict[str, Any] = msgspec.to_builtins(frame)
    for cost in ("transaction", "gas", "calldata_bytes", "gas_price_wei"):
        shown["call"].pop(cost, None)
    return shown


@pytest.mark.parametrize("table", ["scalar", "sink", "three-claims"])
def test_every_pick_lies_in_the_opening_before(table: str) -> None:
    """A move picks one of the parts that were opened, and opens no more than what is picked."""
    _, frames = reduce_model(play(TABLES[table]))
    assert check_narrowing(frames) > 3


def check_narrowing(frames: list[Frame]) -> int:
    """Follow all matches' picks and openings; return how many picks there were."""
    opened: dict[int | None, Any] = {}
    picks = 0
    for frame in frames:
        last, pick, opening = opened.get(frame.match), frame.pick, frame.opening
        if pick is not None and last is not None:
            assert (pick.tree, pick.by) == (last.tree, 1 - last.by)
            place = last.starts.index(pick.low)
            ends = [*last.starts[1:], last.high]
            assert pick.high == ends[place]
            picks += 1
        if opening is not None:
            if pick is not None and pick.tree == opening.tree:
                assert (opening.low, opening.high) == (pick.low, pick.high)
            assert opening.starts == sorted(set(opening.starts))
            assert opening.low == opening.starts[0] <= opening.starts[-1] < opening.high
            opened[frame.match] = opening
    return picks


def test_a_pick_beside_the_opening_is_seen() -> None:
    """A position that jumps to another place than one that was opened makes a wrong picture."""
    recorder = play((SCALAR,))

    def jump(entry: Entry) -> Entry:
        events = []
        for event in entry.events:
            match event.args[3:]:
                case (Position(moves=3) as position, *rest):
                    moved = replace(position, index=position.index + 1)
                    events.append(replace(event, args=(*event.args[:3], moved, *rest)))
                case _:
                    events.append(event)
        return replace(entry, events=tuple(events))

    recorder.entries = [jump(entry) for entry in recorder.entries]
    _, frames = reduce_model(recorder)
    with pytest.raises((AssertionError, ValueError)):
        check_narrowing(frames)


def find_match(frames: list[Frame]) -> Match:
    """Return the first match as it stood last."""
    return [match for frame in frames for match in frame.matches if match.number == 0][-1]


def test_a_match_finds_where_the_lie_is() -> None:
    """The last frames name the lie's place, the operation, and who claimed what."""
    recorder = play((SCALAR,))
    _, frames = reduce_model(recorder)
    match = find_match(frames)
    found, scalar = match.found, match.scalar
    assert (found.checkpoint, found.step, found.element) == (1, SCALAR.step, SCALAR.element)
    assert found.operator is not None
    assert (found.operator.index, found.operator.function) == (SCALAR.operator, "fma")
    assert (found.low, found.high) == (SCALAR.term, SCALAR.term + 1)
    assert scalar is not None
    assert match.end is not None
    assert found.claimed is not None
    assert found.agreed is not None
    assert (scalar.function, match.end.ending) == ("fma", "scalar")
    assert [it.number for it in scalar.operands] == ["1.1", "-0.3", found.agreed.number]
    winner = ["first", "second"].index(match.end.outcome)
    assert found.claimed[winner] == scalar.computed != found.claimed[1 - winner]


def test_a_leaf_that_proves_nothing_shows_no_operation() -> None:
    """Operands are proven once more: with another byte of evidence there is no operation."""
    recorder = play((SCALAR,))
    (place,) = [i for i, it in enumerate(recorder.entries) if it.leaf is not None]
    entry = recorder.entries[place]
    leaf = entry.leaf
    assert leaf is not None
    for spoiled in (
        replace(leaf, evidence=leaf.evidence[:-1] + bytes([leaf.evidence[-1] ^ 1])),
        replace(leaf, evidence=b""),
        replace(leaf, encoding=b"\xff" * 40),
        LeafCall(7, leaf.encoding, leaf.before, leaf.evidence),
    ):
        recorder.entries[place] = replace(entry, leaf=spoiled)
        _, frames = reduce_model(recorder)
        match = find_match(frames)
        assert match.scalar is None
        assert match.end is not None


ENDINGS: Mapping[str, tuple[Lie, LeafMode, str]] = {
    "sink": (SINK, LeafMode.SCALAR, "sink"),
    "clock": (SILENT, LeafMode.SCALAR, "clock"),
    "verifier": (SCALAR, LeafMode.OPERATOR, "verifier"),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_other_endings_are_told(case: str) -> None:
    """A match that ends otherwise says how, and names no scalar."""
    lie, leaf, ending = ENDINGS[case]
    recorder = play((lie,), leaf=leaf)
    _, frames = reduce_model(recorder)
    match = find_match(frames)
    assert match.end is not None
    assert (match.end.ending, match.scalar) == (ending, None)
    if case == "verifier":
        assert match.found.operator is not None
        assert match.found.operator.index == SCALAR.operator
    if case == "sink":
        assert frames[-1].job == 0
        trees = [frame.pick.tree for frame in frames if frame.pick]
        assert trees[-1] == "state"


def test_a_match_whose_member_is_out_has_stopped() -> None:
    """Of two matches of one liar, the one that goes on when it loses cannot be ended any more."""
    recorder, game = open_model((Lie(step=10**6), SCALAR))
    for played in game.play():
        if played.call == "start_match":
            (begun,) = recorder.store.matches
            liar = game.players[2].address
            honest = {it.address for it in game.players[:2]} - {begun.first, begun.second}
            args = name_match(recorder.store, order_pair(0, liar, *honest))
            recorder.transact("start_match", *args, sender=game.client)
    _, frames = reduce_model(recorder)
    last = {match.number: match for frame in frames for match in frame.matches}
    endings = [match.end.ending for match in last.values() if match.end]
    assert sorted(endings) == ["scalar", "stopped"]
    stopping = next(frame for frame in frames if len(frame.matches) > 1)
    assert stopping.call.name == "leaf"


@pytest.mark.parametrize("unknown", [True, False])
def test_calls_through_other_contracts_are_told_by_their_events(unknown: bool) -> None:  # noqa: FBT001 - a case
    """Where nobody knows a call's name or arguments, the state and the picture stay the same."""
    recorder = play((SCALAR,))
    _, known = reduce_model(recorder)
    if unknown:
        recorder.entries = [
            replace(entry, call="", encoding=None, leaf=None) for entry in recorder.entries
        ]
    _, frames = reduce_model(recorder)
    places = [(it.pick and (it.pick.low, it.pick.high), it.members, it.jobs) for it in frames]
    assert places == [
        (it.pick and (it.pick.low, it.pick.high), it.members, it.jobs) for it in known
    ]
    assert (find_match(frames).scalar is None) == unknown


def test_names_of_operators_come_from_the_program() -> None:
    """With the program at hand, its names stand beside the indices; without, only these."""
    recorder, game = open_model((SCALAR,))
    assert list(game.play())
    top = game.task.commitment.header.top
    names = {top: game.task.program.names}
    find = lambda terms: names[terms.program_top]  # noqa: E731 - one line
    named = Reducer(recorder.address, CHAIN_ID, ORDERED, find).reduce(recorder.entries)
    _, bare = reduce_model(recorder)
    assert any("operator 4, n4" in frame.text for frame in named)
    assert not any("n4" in frame.text for frame in bare)
    labels = [frame.pick.label for frame in named if frame.pick and frame.pick.tree == "trace"]
    assert labels[-1] == "n4"
    assert SIZE.operators == len(game.task.program.names)
