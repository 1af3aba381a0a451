"""Calls that make no sense: each is refused with its reason, and changes nothing."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from moot.contracts.model.abi import pack_position
from moot.contracts.model.types import NOBODY, ZERO, Dive, Facts, Pair, Position
from moot.contracts.reasons import LeafMode, Outcome, Phase, Reason, Status
from moot.offchain.errors import Reverted
from moot.sim.synthetic.products import Lie
from tests.attacks.court import HONEST, LIE, SALT, Call, Court, open_court
from tests.attacks.twin import Twin
from tests.quick import every

NO_DIVE = Dive(0, ZERO, (), ())
NOTHING = (ZERO, ZERO)
VERIFIER = 7
"""The account of the bounded verifier."""


def list_job_calls(court: Court, job_id: int) -> Iterator[tuple[str, tuple[Any, ...], int]]:
    """Yield every call about a job as a whole, with its value."""
    first, second = court.get_pair().first, court.get_pair().second
    yield "commit", (job_id, SALT, court.named), court.terms.bond_wei
    yield "reveal", (job_id, court.get_top(0), SALT), 0
    yield "join", (job_id, court.get_top(0), court.named), court.terms.bond_wei
    yield "start_match", (job_id, first, second, NOTHING, NOTHING), 0
    yield "settle", (job_id, court.get_top(0)), 0
    yield "collect", (job_id,), 0


def list_moves(pair: Pair, at: Position) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield every call about a match, with arguments that mean nothing."""
    facts = Facts()
    yield "descend", (pair, at, NO_DIVE)
    yield "enter_claimed", (pair, at, facts, ZERO, ZERO, (), NO_DIVE)
    yield "enter_tensor", (pair, at, facts, b"", (), ZERO, NO_DIVE)
    yield "enter_state", (pair, at, ZERO, NO_DIVE)
    yield "reach_chunk", (pair, at, facts, NO_DIVE, b"")
    yield "pick_element", (pair, at, facts, b"", b"", b"")
    yield "pick_segment", (pair, at, facts, b"", 0, 0, b"")
    yield "leaf", (pair, at, facts, 0, b"", ZERO, (), b"")
    yield "prove_sink", (pair, at, facts, 0, ZERO, ())
    yield "rule", (pair, at, Outcome.FIRST)
    yield "timeout", (pair, at)


def test_calls_about_jobs_that_nobody_opened(referee: Twin) -> None:
    """The number behind the last, and the largest there is, are no jobs, and have no matches."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    for job_id in (court.job_id + 1, 2**256 - 1):
        for name, args, value in list_job_calls(court, job_id):
            refused = referee.refused(name, court.client, *args, value_wei=value)
            assert refused == Reason.NO_SUCH_JOB, name
        for name, args in list_moves(replace(pair, job_id=job_id), court.at(pair)):
            assert referee.refused(name, court.client, *args) == Reason.STALE, name


def test_calls_about_a_closed_job(referee: Twin) -> None:
    """Once a job is closed nothing is left to do but to collect."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    at = court.at(pair)
    court.finish(pair)
    court.settle(1)
    for name, args, value in list_job_calls(court, court.job_id):
        if name != "collect":
            refused = referee.refused(name, court.client, *args, value_wei=value)
            assert refused == Reason.CLOSED, name
    for name, args in list_moves(pair, at):
        assert referee.refused(name, court.client, *args) == Reason.STALE, name


def test_moves_in_matches_that_nobody_plays(referee: Twin) -> None:
    """Before a match has begun, and with members swapped, doubled or strange, there is no move."""
    court = open_court(referee, LIE, HONEST, Lie(3)).assemble()
    pair = court.start()
    at = court.at(pair)
    strangers = (
        court.get_pair(0, 2),
        Pair(pair.job_id, pair.second, pair.first),
        Pair(pair.job_id, pair.first, pair.first),
        Pair(pair.job_id, NOBODY, pair.second),
    )
    for other in strangers:
        for name, args in list_moves(other, at):
            assert referee.refused(name, court.client, *args) == Reason.STALE, name


@pytest.mark.parametrize("phase", every(6, [Phase.HISTORY, Phase.TRACE, Phase.CHUNK, Phase.LEAF]))
def test_moves_of_other_phases_and_without_meaning(referee: Twin, phase: Phase) -> None:
    """At any place of a match, no call with empty arguments is accepted from anybody."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair = court.begin()
    court.play(pair, lambda at: at.phase is phase)
    for sender in (*court.members, court.client):
        for name, args in list_moves(pair, court.at(pair)):
            reason = referee.refused(name, sender, *args)
            own = {"rule": Reason.WRONG_PHASE, "timeout": Reason.CLOCK_RUNNING}
            assert reason == own.get(name, reason)
            assert reason in set(Reason) - {Reason.NO_REASON}


def bend_position(at: Position) -> Iterator[Position]:
    """Yield positions that differ from a position in one thing."""
    yield replace(at, phase=Phase.LEAF)
    yield replace(at, phase=Phase.VERIFIER)
    yield replace(at, mover=1 - at.mover)
    yield replace(at, deadline=at.deadline + 1)
    yield replace(at, deadline=0)
    yield replace(at, spare_blocks=at.spare_blocks + 1)
    yield replace(at, nodes=at.nodes[::-1])
    yield replace(at, count=at.count + 1)
    yield replace(at, level=at.level + 1)
    yield replace(at, index=at.index + 1)
    yield replace(at, span=at.span ^ 1)
    yield replace(at, entered=at.entered ^ 1)
    yield replace(at, moves=at.moves + 1)
    yield replace(at, facts=ZERO)


def test_positions_that_are_not_the_matchs(referee: Twin) -> None:
    """A position that is wrong in one field only is refused by every move, and by the clock."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair = court.begin()
    court.play_to(pair, Phase.TRACE)
    move, at = court.find(pair), court.at(pair)
    for bent in bend_position(at):
        assert bent != at
        args = (pair, bent, *move.args[2:])
        assert court.refuse(move, args=args) == Reason.STALE
        assert referee.refused("timeout", court.client, pair, bent) == Reason.STALE
    court.make(move)


def test_words_that_are_not_packed_as_they_should_be(referee: Twin) -> None:
    """Bits above a position's last field do not change what it means: they make it another."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    move = court.find(pair)
    head, *rest = pack_position(move.args[1])
    codec, dive = referee.contract, move.args[2]
    plain = (dive.child, dive.node, list(dive.siblings), list(dive.nodes))
    place = (pair.job_id, pair.first, pair.second)
    for bit in (255, 254, 248):
        with pytest.raises(Reverted, match=Reason.STALE):
            codec.transact(
                "descend", place, (head ^ 1 << bit, *rest), plain, sender=referee.chain.accounts[0]
            )
    court.make(move)


def bend_facts(facts: Facts) -> Iterator[Facts]:
    """Yield facts that differ from facts in one thing."""
    for name in facts.__slots__:
        value = getattr(facts, name)
        if isinstance(value, int):
            yield replace(facts, **{name: value ^ 1})  # type: ignore[arg-type]  # of its own type
        elif isinstance(value, bytes):
            yield replace(facts, **{name: b"\1" * 32})  # type: ignore[arg-type]  # likewise
        elif value[0] != value[1]:
            yield replace(facts, **{name: value[::-1]})


@pytest.mark.parametrize(
    "phase", every(6, [Phase.TRACE, Phase.TENSOR, Phase.CHUNK, Phase.FOLD, Phase.LEAF])
)
def test_facts_that_were_not_found(referee: Twin, phase: Phase) -> None:
    """Facts that are wrong in one field only are refused by every move that builds on them."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair = court.begin()
    court.play(pair, lambda at: at.phase is phase)
    move, bent = court.find(pair), 0
    for facts in bend_facts(move.args[2]):
        args = (*move.args[:2], facts, *move.args[3:])
        assert court.refuse(move, args=args) == Reason.STALE
        bent += 1
    assert bent > 8
    court.make(move)


def test_moves_out_of_turn_and_twice(referee: Twin) -> None:
    """A side can't move when it is the other's turn, nor make the same move again."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    made: list[Call] = []
    while court.look(pair) is not None:
        move, at = court.find(pair), court.at(pair)
        for old in made[-3:]:
            assert court.refuse(old) == Reason.STALE
            if old.name == move.name:
                again = replace(old, args=(pair, at, *old.args[2:]))
                assert court.refuse(again) in set(Reason) - {Reason.NO_REASON}
        made.append(move)
        court.make(move)


def test_accumulators_and_segments_that_do_not_exist(referee: Twin) -> None:
    """Wrong numbers of accumulators, other ones, segments and bits out of range are refused."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair = court.begin()
    court.play_to(pair, Phase.FOLD)
    move = court.find(pair)
    pair_, at, facts, theirs, segment, bits, values = move.args
    cases = {
        Reason.BAD_VALUES: [
            (theirs[:-1], segment, bits, values),
            (b"", segment, bits, values),
            (bytes(len(theirs)), segment, bits, values),
            (theirs, segment, bits, values + bytes(4)),
            (theirs, segment, bits, values + bytes(1)),
            (theirs, segment, 2**32, values),
            (theirs, segment, 2**256 - 1, values),
        ],
        Reason.OUT_OF_RANGE: [
            (theirs, 64, bits, values),
            (theirs, 2**64 + segment, bits, values),
            (theirs, 2**256 - 1, bits, values),
        ],
        Reason.NO_REASON: [(theirs + bytes(504), segment, bits, values)],
    }
    for reason, changes in cases.items():
        for change in changes:
            assert court.refuse(move, args=(pair_, at, facts, *change)) == reason
    same = int.from_bytes(theirs[segment * 4 :][:4], "little")
    args = (pair_, at, facts, theirs, segment, same, values)
    assert court.refuse(move, args=args) == Reason.SAME_NODE
    court.make(move)


def test_sides_that_do_not_exist(referee: Twin) -> None:
    """There are two sides in whose trees a leaf or a sink can be proven."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    move = court.find(pair)
    for side in (2, 3, 2**256 - 1):
        args = (*move.args[:3], side, *move.args[4:])
        assert court.refuse(move, args=args) == Reason.OUT_OF_RANGE
    sink = open_court(referee, Lie(6, operator=9), HONEST)
    pair = sink.begin()
    sink.play_to(pair, Phase.SINK)
    move = sink.find(pair)
    for side in (2, 2**256 - 1):
        args = (*move.args[:3], side, *move.args[4:])
        assert sink.refuse(move, args=args) == Reason.OUT_OF_RANGE
    for root, proof in ((ZERO, move.args[5]), (move.args[4], ()), (move.args[4], (ZERO,) * 56)):
        assert sink.refuse(move, args=(*move.args[:4], root, proof)) == Reason.BAD_PROOF
    sink.make(move)


def test_money_where_none_is_taken(referee: Twin) -> None:
    """Only opening, committing and joining take money; every other call with value is refused."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    for name, args, _ in list_job_calls(court, court.job_id):
        if name not in {"commit", "join"}:
            assert referee.refused(name, court.client, *args, value_wei=1) == Reason.NO_REASON
    for name, args in list_moves(pair, court.at(pair)):
        assert referee.refused(name, court.client, *args, value_wei=1) == Reason.NO_REASON


def test_bonds_that_are_not_the_bond(referee: Twin) -> None:
    """A bond of nothing, a wei less or more, or two bonds, is not taken, early or late."""
    court = open_court(referee, HONEST)
    bond = court.terms.bond_wei
    commit = ("commit", court.members[0], court.job_id, SALT, court.named)
    for value in (0, bond - 1, bond + 1, 2 * bond):
        assert referee.refused(*commit, value_wei=value) == Reason.WRONG_BOND
    referee.mine_to(court.job.reveal_deadline + 1)
    join = ("join", court.members[0], court.job_id, court.get_top(0), court.named)
    for value in (0, bond - 1, bond + 1, 2 * bond):
        assert referee.refused(*join, value_wei=value) == Reason.WRONG_BOND


def test_matches_that_cannot_begin(referee: Twin) -> None:
    """Too early, against oneself, in the wrong order, hidden or unknown members play no match."""
    court = open_court(referee, LIE, HONEST, HONEST)
    for seat in range(3):
        court.commit(seat)
    pair = court.get_pair()
    match, tops = ("start_match", court.client, court.job_id), (NOTHING, NOTHING)
    assert referee.refused(*match, pair.first, pair.second, *tops) == Reason.TOO_EARLY
    referee.mine_to(court.job.commit_deadline + 1)
    court.reveal(0)
    court.reveal(1)
    assert referee.refused(*match, pair.first, pair.second, *tops) == Reason.TOO_EARLY
    referee.mine_to(court.job.reveal_deadline + 1)
    hidden = court.get_pair(0, 2)
    assert referee.refused(*match, hidden.first, hidden.second, *tops) == Reason.NOT_CONTENDER
    assert referee.refused(*match, NOBODY, pair.second, *tops) == Reason.NOT_CONTENDER
    assert referee.refused(*match, pair.second, pair.first, *tops) == Reason.WRONG_ORDER
    assert referee.refused(*match, pair.first, pair.first, *tops) == Reason.WRONG_ORDER
    court.start()


def test_verifier_that_is_somebody_else_or_nobody(referee: Twin) -> None:
    """Only the job's verifier rules, once, one of three ways, and while its clock runs."""
    court = open_court(
        referee,
        LIE,
        HONEST,
        leaf_mode=LeafMode.OPERATOR,
        verifier=referee.accounts[VERIFIER],
    )
    pair = court.begin()
    court.play(pair, lambda at: at.phase is Phase.VERIFIER)
    at, verifier = court.at(pair), court.terms.verifier
    for sender in (*court.members, court.client):
        assert referee.refused("rule", sender, pair, at, Outcome.FIRST) == Reason.NOT_YOURS
    for outcome in (3, 256, 2**256 - 1):
        assert referee.refused("rule", verifier, pair, at, outcome) == Reason.OUT_OF_RANGE
    assert referee.refused("timeout", court.client, pair, at) == Reason.CLOCK_RUNNING
    with referee.branch():
        referee.mine_to(at.deadline + 1)
        refused = referee.refused("rule", verifier, pair, at, Outcome.FIRST)
        assert refused == Reason.CLOCK_EXPIRED
        referee.call("timeout", court.client, pair, at)
        assert referee.job(court.job_id).status is Status.OPEN
        court.settle(0)
        assert referee.job(court.job_id).status is Status.EMPTY
        for member in court.members:
            assert referee.debt(court.job_id, member) == court.terms.bond_wei
    referee.call("rule", verifier, pair, at, Outcome.NEITHER)
    assert referee.refused("rule", verifier, pair, at, Outcome.FIRST) == Reason.STALE
    court.settle(0)
    assert court.job.status is Status.EMPTY
