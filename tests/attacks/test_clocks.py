from dataclasses import replace

import pytest

from moot.contracts.model.types import Event, Position
from moot.contracts.reasons import Ending, Phase, Reason, Standing, Status
from moot.sim.synthetic.products import Lie
from tests.attacks.court import HONEST, LIE, Call, Court, open_court, read_end
from tests.attacks.twin import Twin
from tests.quick import every


def time_out(court: Court, call: Call) -> Call:
    """Return the call that ends the match in which another call is due."""
    return Call("timeout", court.client, call.args[:2])


def test_c1_only_the_side_to_move_pays_with_its_clock(referee: Twin) -> None:
    """In every phase the clock that runs is the mover's; the other side keeps all that it had."""
    court = open_court(referee, LIE, HONEST, clock_blocks=100)
    pair = court.begin()
    while (board := court.look(pair)) and board.position.phase is not Phase.LEAF:
        before = board.position
        referee.chain.mine(4)
        court.make(court.find(pair))
        after, block = court.at(pair), referee.block_number()
        assert after.mover == 1 - before.mover
        assert after.deadline == block + before.spare_blocks
        assert after.spare_blocks == before.deadline - block + 3
    court.find(pair)


def test_c1_who_let_its_clock_run_out_loses_whoever_says_so(referee: Twin) -> None:
    """The timeout goes against the side to move, also when that side itself sends it."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    at = court.at(pair)
    mover, other = (pair.first, pair.second)[:: 1 - 2 * at.mover]
    referee.mine_to(at.deadline + 1)
    ended = referee.call("timeout", mover, pair, at)
    assert read_end(ended) == (other, Ending.CLOCK)


def test_c2_last_second_move_leaves_time_to_answer(referee: Twin) -> None:
    """A move in the last block of a clock can't be followed by a timeout of the other side."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    referee.mine_to(court.at(pair).deadline)
    court.make(court.find(pair))
    answer = court.find(pair)
    assert court.refuse(time_out(court, answer)) == Reason.CLOCK_RUNNING
    assert court.at(pair).deadline == referee.block_number() - 1 + 20
    assert court.at(pair).spare_blocks == 3
    court.make(answer)


def test_c3_increments_never_lift_a_clock_above_its_beginning(referee: Twin) -> None:
    """Whoever moves at once does not gather time, not even with the largest increment."""
    court = open_court(referee, LIE, HONEST, increment_blocks=20)
    pair = court.begin()
    while (board := court.look(pair)) is not None:
        assert board.position.spare_blocks <= 20
        assert board.position.deadline <= referee.block_number() + 20
        court.make(court.find(pair))


def test_c3_increment_above_the_clock_is_absurd(referee: Twin) -> None:
    """A job can't grant more for a move than for the whole match, nor nothing."""
    terms = open_court(referee, HONEST).terms
    for increment in (0, 21, 2**256 - 1):
        changed = replace(terms, increment_blocks=increment)
        refused = referee.refused("open_job", referee.accounts[0], changed)
        assert refused == Reason.ABSURD_TERMS


def test_c4_moves_after_the_end_are_refused(referee: Twin) -> None:
    """Once a match is over its positions are good for nothing, and nobody's bond is frozen."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.play_to(pair, Phase.FOLD)
    early = court.find(pair)
    court.play_to(pair, Phase.LEAF)
    last = court.find(pair)
    court.make(last)
    for call in (early, last, time_out(court, last), time_out(court, early)):
        assert court.refuse(call) == Reason.STALE
    again = court.name_match(pair)
    assert referee.refused("start_match", court.client, *again) == Reason.NOT_CONTENDER
    court.settle(1)
    assert court.refuse(last) == Reason.STALE
    referee.call("collect", court.members[1], court.job_id)


def test_c4_match_of_a_member_that_fell_elsewhere_ends_nobody(referee: Twin) -> None:
    """A member plays two matches and loses one: moves in the other decide nothing any more."""
    court = open_court(referee, LIE, HONEST, HONEST)
    court.assemble()
    pairs = court.start(0, 1), court.start(0, 2)
    court.play_to(pairs[1], Phase.LEAF)
    last = court.find(pairs[1])
    court.finish(pairs[0])
    assert court.refuse(last) == Reason.NOT_CONTENDER
    referee.mine_to(last.args[1].deadline + 1)
    assert court.refuse(time_out(court, last)) == Reason.NOT_CONTENDER
    court.settle(1)
    for seat in (1, 2):
        referee.call("collect", court.members[seat], court.job_id)
    assert referee.balance(referee.address) == 0


def test_c5_nothing_fits_between_the_leaf_and_its_result(referee: Twin) -> None:
    """The leaf is computed and the match is over in one call, and the loser is out at once."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    events = court.make(court.find(pair))
    assert [event.name for event in events] == ["MatchEnded"]
    assert referee.member(court.job_id, court.members[0]).standing is Standing.DEFEATED


def test_c6_every_match_begins_with_whole_clocks(referee: Twin) -> None:
    """Time that a member has used in one match is not missing in its next."""
    court = open_court(referee, LIE, HONEST, Lie(3))
    court.assemble()
    pair = court.start(0, 1)
    referee.mine_to(court.at(pair).deadline)
    court.finish(pair)
    court.wait()
    at = court.at(court.start(1, 2))
    assert (at.deadline, at.spare_blocks) == (referee.block_number() + 20, 20)


def test_c6_clocks_of_matches_at_the_same_time_are_apart(referee: Twin) -> None:
    """A move in one match changes nothing about the clocks of another of the same member."""
    court = open_court(referee, LIE, HONEST, HONEST)
    court.assemble()
    pairs = court.start(0, 1), court.start(0, 2)
    before = court.at(pairs[1])
    court.make(court.find(pairs[0]))
    assert court.at(pairs[1]) == before


def test_c7_both_wrong_at_the_leaf_both_lose(referee: Twin) -> None:
    """If the contract computes what neither side says, both bonds are lost, and nobody wins."""
    court = open_court(referee, LIE, Lie(6, 4, 77, 33, mask=6))
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    board = court.look(pair)
    assert board is not None
    last = court.synthetic.partials[34]
    assert set(board.facts.bits) == {last ^ 1, last ^ 6}
    assert read_end(court.make(court.make_leaf(pair, 0))) == (None, Ending.SCALAR)
    assert [referee.member(0, m).standing for m in court.members] == [Standing.DEFEATED] * 2
    court.settle(0)
    assert court.job.status is Status.EMPTY
    assert referee.store.burned_wei == 2 * court.terms.bond_wei
    referee.call("collect", court.client, court.job_id)
    assert referee.balance(referee.address) == 0


def test_c7_both_silent_the_side_to_move_loses(referee: Twin) -> None:
    """Silence on both sides has an outcome, however long it lasts."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    at = court.at(pair)
    referee.mine_to(at.deadline + 300)
    ended = referee.call("timeout", court.client, pair, at)
    assert read_end(ended) == (pair.second, Ending.CLOCK)


@pytest.mark.parametrize("clock", every(6, [1, 2, 20]))
def test_c8_last_block_of_a_clock_belongs_to_the_mover(referee: Twin, clock: int) -> None:
    """In the block of the deadline the move is in time and the timeout is not; then the reverse."""
    court = open_court(referee, LIE, HONEST, clock_blocks=clock, increment_blocks=1)
    pair = court.begin()
    at, move = court.at(pair), court.find(pair)
    assert at.deadline == referee.block_number() + clock
    referee.mine_to(at.deadline)
    with referee.branch():
        court.make(move)
        assert court.at(pair).spare_blocks == 1
    assert court.refuse(time_out(court, move)) == Reason.CLOCK_RUNNING
    assert court.refuse(move) == Reason.CLOCK_EXPIRED
    court.make(time_out(court, move))


def test_c8_windows_close_after_their_last_block(referee: Twin) -> None:
    """Commit, reveal, join, meet and settle: the last block belongs to one side, the next not."""
    court = open_court(referee, HONEST, LIE, Lie(3))
    referee.mine_to(court.job.commit_deadline)
    with referee.branch():
        court.commit(0)
    top = court.get_top(0)
    digest = referee.commitment(court.job_id, court.members[0], top, bytes(32))
    commit = ("commit", court.members[0], court.job_id, digest, court.named)
    reveal = ("reveal", court.members[0], court.job_id, top, bytes(32))
    bond = court.terms.bond_wei
    assert referee.refused(*reveal) == Reason.TOO_EARLY
    assert referee.refused(*commit, value_wei=bond) == Reason.TOO_LATE
    referee.mine_to(court.job.reveal_deadline)
    join = ("join", court.members[1], court.job_id, court.get_top(1), court.named)
    assert referee.refused(*join, value_wei=bond) == Reason.TOO_EARLY
    assert referee.refused(*reveal) == Reason.TOO_LATE
    referee.mine_to(court.job.window_end)
    with referee.branch():
        court.join(1)
    settle = ("settle", court.client, court.job_id, top)
    assert referee.refused(*settle) == Reason.TOO_EARLY
    assert referee.refused(*join, value_wei=bond) == Reason.TOO_LATE
    referee.call(*settle)


def test_c8_absurd_clocks_are_refused(referee: Twin) -> None:
    """No window or clock is 0, none is above its bound, and none is cut to fit a smaller type."""
    terms = open_court(referee, HONEST).terms
    for name in ("commit_blocks", "reveal_blocks", "window_blocks", "clock_blocks"):
        for blocks in (0, 2**20 + 1, 2**24, 2**24 + 20, 2**40, 2**256 - 1):
            changed = replace(terms, **{name: blocks})  # type: ignore[arg-type]  # all of these are integers
            refused = referee.refused("open_job", referee.accounts[0], changed)
            assert refused == Reason.ABSURD_TERMS


def play_late(court: Court, delays: list[int]) -> tuple[object, Ending]:
    """Play with the honest member's transactions kept out of so many blocks, one after another."""
    pair, events = court.begin(), list[Event]()
    while court.look(pair) is not None:
        move = court.find(pair)
        if move.sender == court.members[1] and delays:
            court.referee.chain.mine(delays.pop(0))
        events = list(court.make(move))
    return read_end(events)


@pytest.mark.parametrize("delays", every(6, [[19], [4] * 12, [0, 0, 15, 0, 0, 6], [2] * 30]))
def test_c9_censorship_within_the_clock_does_not_defeat(referee: Twin, delays: list[int]) -> None:
    """Kept out in one burst, or spread, within its clock and increments, the honest side wins."""
    court = open_court(referee, LIE, HONEST)
    assert play_late(court, delays) == (court.members[1], Ending.SCALAR)


@pytest.mark.parametrize("name", every(8, ["leaf", "start_match", "settle", "collect"]))
def test_c9_censored_closing_calls_are_late_and_no_more(referee: Twin, name: str) -> None:
    """Calls that nobody in particular has to make lose nothing by being kept out for long.

    `leaf` is the one of them that has a clock: the one of the side that is to move.
    """
    court = open_court(referee, LIE, HONEST)
    court.assemble()
    wait = {name: 300}
    referee.chain.mine(wait.get("start_match", 0))
    pair = court.start()
    court.play_to(pair, Phase.LEAF)
    at = court.at(pair)
    if name == "leaf":
        referee.mine_to(at.deadline)
    court.finish(pair)
    court.wait()
    referee.chain.mine(wait.get("settle", 0))
    court.settle(1)
    referee.chain.mine(wait.get("collect", 0))
    referee.call("collect", court.members[1], court.job_id)
    bond = court.terms.bond_wei
    assert referee.store.balance_wei == 0
    assert referee.store.burned_wei == bond - bond // 2


def get_time_left(at: Position, block: int) -> int:
    """Return how many blocks a match can last by its clocks if nobody moves any more."""
    return at.deadline - block + at.spare_blocks


def test_c10_time_of_a_match_is_bounded_by_its_clocks_and_moves(referee: Twin) -> None:
    """However slowly both sides play: two clocks, and an increment for every move."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    begun = referee.block_number()
    while (board := court.look(pair)) is not None:
        at = board.position
        bound = begun + 2 * 20 + 3 * at.moves
        assert referee.block_number() + get_time_left(at, referee.block_number()) <= bound
        referee.mine_to(at.deadline)
        moves = at.moves
        court.make(court.find(pair))
    assert referee.block_number() <= begun + 2 * 20 + 3 * (moves + 1)


def test_c11_nobody_pays_for_anothers_time(referee: Twin) -> None:
    """Who joins a claim late begins with whole clocks, whatever its fellows have used up."""
    court = open_court(referee, LIE, HONEST, HONEST)
    court.assemble([0, 1])
    pair = court.start(0, 1)
    referee.mine_to(court.at(pair).deadline - 3)
    court.make(court.find(pair))
    court.join(2)
    at = court.at(court.start(0, 2))
    assert (at.deadline, at.spare_blocks) == (referee.block_number() + 20, 20)
