"""Matches that are still played when their job closes: they pay nobody."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from moot.contracts.model.types import Pair
from moot.contracts.reasons import Phase, Reason, Status
from moot.offchain.disputes.referee.board import Board, follow
from tests.attacks.court import HONEST, LIE, Call, Court, open_court
from tests.attacks.twin import Twin


def watch(court: Court, pair: Pair) -> Board:
    """Return a match after all its moves, also those that were made in a closed job."""
    boards: dict[Pair, Board] = {}
    for event in court.referee.events(court.job_id):
        follow(boards, event, court.referee.arithmetic)
    return boards[pair]


def get_worth(court: Court) -> tuple[Any, ...]:
    """Return a copy of all that is remembered but matches, and what everybody is owed."""
    store, accounts = court.referee.store, (court.client, *court.members)
    debts = [court.referee.debt(court.job_id, account) for account in accounts]
    kept = (store.jobs, store.members, store.claims, store.balance_wei, store.burned_wei)
    return deepcopy((*kept, debts))


def play_on(court: Court, pair: Pair, deciding: Sequence[str]) -> Call:
    """Play a match of a closed job up to the call that would decide it, and return that.

    After each call the twin has compared all words and balances of the contract with the model's.
    """
    worth, others = get_worth(court), dict(court.referee.store.matches)
    del others[pair]
    while (call := court.find(pair, watch(court, pair))).name not in deciding:
        events = court.make(call)
        assert {event.name for event in events} <= {"Found", "Moved"}
        assert get_worth(court) == worth
        matches = dict(court.referee.store.matches)
        assert matches.pop(pair) == court.referee.match(pair) != bytes(32)
        assert matches == others
    return call


def test_m7_moves_in_a_closed_job_change_their_match_and_nothing_else(referee: Twin) -> None:
    """A beaten liar may play on in another match after the job is won; its leaf decides nothing."""
    court = open_court(referee, LIE, HONEST, HONEST, clock_blocks=100).assemble()
    pairs = court.start(0, 1), court.start(0, 2)
    court.finish(pairs[0])
    court.settle(1)
    assert court.job.status is Status.WON
    last = play_on(court, pairs[1], ["leaf"])
    worth, at = get_worth(court), last.args[1]
    assert at.phase is Phase.LEAF
    assert court.refuse(last) == Reason.CLOSED
    liar_side = (pairs[1].first, pairs[1].second).index(court.members[0])
    args = (*last.args[:3], liar_side, *last.args[4:])
    assert court.refuse(last, args=args) in {Reason.NOT_CONTENDER, Reason.BAD_OPERAND}
    assert referee.refused("timeout", court.client, pairs[1], at) == Reason.CLOCK_RUNNING
    referee.mine_to(at.deadline + 1)
    assert referee.refused("timeout", court.client, pairs[1], at) == Reason.CLOSED
    assert get_worth(court) == worth
    for seat in (1, 2):
        referee.call("collect", court.members[seat], court.job_id)
    assert referee.store.balance_wei == 0
    assert referee.refused("collect", court.members[2], court.job_id) == Reason.NOTHING_OWED
