import pytest

from contracts.model.checks import is_challengers_turn
from contracts.model.types import Match
from contracts.reasons import Ending, Phase, Reason
from tests.lockstep.claims import cheating
from tests.lockstep.game import Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.tasks import honest_kinds, kinds

CLOCK = {"clock_blocks": 20, "increment_blocks": 3}


def start(referee: Lockstep, **terms: int) -> Game:
    """Begin a match between a liar, who defends, and an honest challenger."""
    claims = [cheating(kinds(4, 2), 1, 6), honest_kinds(4, 2)]
    return Game(referee, kinds(4, 2), claims, CLOCK | terms).assemble().start()


def get_clocks(match: Match) -> tuple[int, int]:
    """Return what the side to move and the other side had left at the last move."""
    clocks = (match.defender_clock, match.challenger_clock)
    return clocks[::-1] if is_challengers_turn(match) else clocks


def test_c1_only_the_side_to_move_pays_with_its_clock(referee: Lockstep) -> None:
    """In every phase the clock that runs is the mover's; the other side's does not change."""
    game = start(referee, clock_blocks=100)
    while game.match.phase is not Phase.LEAF:
        before, mover = game.match, is_challengers_turn(game.match)
        referee.chain.mine(4)
        game.make(game.next_move())
        clocks = ("defender_clock", "challenger_clock")
        spare, running = clocks if mover else clocks[::-1]
        assert getattr(game.match, spare) == getattr(before, spare)
        assert getattr(game.match, running) == getattr(before, running) - 5 + 3


def test_c2_move_in_the_last_block_leaves_the_opponent_its_own_clock(referee: Lockstep) -> None:
    """A move in the last second cannot be followed by a timeout of the other side at once."""
    game = start(referee)
    running, spare = get_clocks(game.match)
    referee.mine_to(game.match.since + running)
    game.make(game.next_move())
    assert get_clocks(game.match) == (spare, 3)
    position = referee.position(game.job_id)
    refused = referee.refused("timeout", game.members[0], game.job_id, position)
    assert refused == Reason.CLOCK_RUNNING


def test_c3_increments_never_lift_a_clock_above_its_beginning(referee: Lockstep) -> None:
    """Whoever moves at once does not gather time."""
    game = start(referee, increment_blocks=20)
    while game.is_playing:
        assert max(get_clocks(game.match)) <= 20
        game.make(game.next_move())


def test_c4_moves_after_the_end_are_refused(referee: Lockstep) -> None:
    """Once a match has ended its last position is good for nothing, also in the next match."""
    claims = [cheating(kinds(), 0, 6), honest_kinds(), cheating(kinds(), 1, 13)]
    game = Game(referee, kinds(), claims).assemble().start()
    game.play_to(Phase.LEAF)
    last = game.next_move()
    game.make(last)
    assert referee.refused(last.name, last.sender, *last.args) == Reason.WRONG_PHASE
    assert referee.refused("timeout", last.sender, *last.args[:2]) == Reason.WRONG_PHASE
    game.start()
    assert referee.refused(last.name, last.sender, *last.args) == Reason.STALE
    assert game.finish() == (1, Ending.SCALAR)


def test_c7_two_liars_who_meet_leave_one_for_the_honest_member(referee: Lockstep) -> None:
    """When both sides are wrong one of them loses, and the other loses to the honest claim."""
    claims = [cheating(kinds(), 0, 6), cheating(kinds(), 0, 13), honest_kinds()]
    game = Game(referee, kinds(), claims).assemble()
    assert game.start().finish() == (1, Ending.SCALAR)
    assert game.start().finish() == (2, Ending.SCALAR)
    (settled,) = referee.call("settle", game.client, game.job_id)
    assert settled.args[2] == 1


def test_c7_when_both_sides_are_silent_the_side_to_move_loses(referee: Lockstep) -> None:
    """Silence on both sides has an outcome, and the survivor can be beaten or paid."""
    game = start(referee)
    referee.mine_to(game.match.since + 200)
    position = referee.position(game.job_id)
    (ended,) = referee.call("timeout", game.client, game.job_id, position)
    assert ended.args[2:] == (1, 0, Ending.CLOCK)
    referee.call("settle", game.client, game.job_id)


@pytest.mark.parametrize("clock", [1, 2, 20])
def test_c8_last_block_of_a_clock_belongs_to_the_mover(referee: Lockstep, clock: int) -> None:
    """In the block `since + clock` the move is in time and the timeout is not; then the reverse."""
    game = start(referee, clock_blocks=clock, increment_blocks=0)
    move, last = game.next_move(), game.match.since + clock
    timeout = ("timeout", game.members[1], game.job_id, referee.position(game.job_id))
    referee.mine_to(last)
    with referee.branch():
        assert referee.refused(*timeout) == Reason.CLOCK_RUNNING
        assert referee.refused(move.name, move.sender, *move.args) == Reason.CLOCK_EXPIRED
        referee.call(*timeout)
    with referee.branch():
        game.make(move)
        assert get_clocks(game.match) == (clock, 0)


def test_c8_clock_of_zero_still_has_the_block_of_the_last_move(referee: Lockstep) -> None:
    """A side whose clock is used up loses unless it moves in the very block of its turn."""
    game = start(referee, clock_blocks=5, increment_blocks=0)
    referee.mine_to(game.match.since + 5)
    game.make(game.next_move())
    game.make(game.next_move())
    assert get_clocks(game.match)[0] == 0
    move = game.next_move()
    assert referee.refused(move.name, move.sender, *move.args) == Reason.CLOCK_EXPIRED
    position = referee.position(game.job_id)
    referee.call("timeout", game.members[1], game.job_id, position)
