"""Attacks on the knockout: claims that go on while somebody may still oppose them."""

from collections.abc import Sequence

from moot.contracts.model.types import ZERO, Pair
from moot.contracts.reasons import Ending, Reason
from moot.offchain.commitments.tree import Digest
from moot.sim.synthetic.products import Lie
from tests.attacks.court import HONEST, LIE, Court, open_court
from tests.attacks.twin import Twin

LATER = Lie(step=9)
EARLIER = Lie(step=3)
UNKNOWN = b"\1" * 32


def refuse(court: Court, pair: Pair, rivals: Sequence[Digest] | None = None) -> str:
    """Begin a match that must not begin, and return why; with other rivals, if some are given."""
    *args, right = court.name_match(pair)
    call = ("start_match", court.client, *args, right if rivals is None else tuple(rivals))
    return court.referee.refused(*call)


def win_a_meeting(referee: Twin) -> Court:
    """Return a job in the last block in which somebody may join 0, of whom 1 has left nobody."""
    court = open_court(referee, LIE, HONEST, LIE, LATER)
    court.assemble([0, 1, 3])
    court.finish(court.start(0, 1))
    met = referee.claim(court.job_id, court.get_top(1))
    assert met is not None
    referee.mine_to(met.window_end)
    return court


def play_two_meetings(referee: Twin) -> Court:
    """Return a job after two meetings, and their windows: of 0 and 3 nobody is left."""
    court = open_court(referee, LIE, HONEST, LATER, EARLIER).assemble()
    pairs = court.start(0, 1), court.start(2, 3)
    assert [court.finish(pair)[0] for pair in pairs] == [court.members[1], court.members[2]]
    court.wait()
    return court


def test_s6_claim_that_goes_on_has_to_show_whom_it_met(referee: Twin) -> None:
    """A claim shows no other than the one that it met: not itself, nor who met somebody else."""
    court = play_two_meetings(referee)
    pair = court.get_pair(1, 2)
    *_, tops, rivals = court.name_match(pair)
    for side in (0, 1):
        wrong = {
            "nothing": ZERO,
            "unknown": UNKNOWN,
            "own": tops[side],
            "opponent": tops[1 - side],
            "of another meeting": rivals[1 - side],
        }
        for shown, top in wrong.items():
            changed = list(rivals)
            changed[side] = top
            assert refuse(court, pair, changed) == Reason.NO_SUCH_CLAIM, (side, shown)
    court.start(1, 2)


def test_s6_claim_that_met_none_is_not_what_another_met(referee: Twin) -> None:
    """To have no meeting is not to be in one with whoever has none."""
    court = open_court(referee, LIE, HONEST, LATER, EARLIER).assemble()
    court.finish(court.start(0, 1))
    court.wait()
    pair = court.get_pair(1, 2)
    side = (pair.first, pair.second).index(court.members[1])
    rivals = [court.get_top(3), court.get_top(3)]
    assert refuse(court, pair, rivals) == Reason.NO_SUCH_CLAIM
    rivals[side] = court.get_top(0)
    referee.call("start_match", court.client, *court.name_match(pair)[:-1], tuple(rivals))


def test_s6_claim_does_not_go_on_while_its_rival_has_somebody(referee: Twin) -> None:
    """A claim that has beaten some members of another one has to play the rest of them first."""
    court = open_court(referee, LIE, LIE, HONEST, LATER).assemble()
    court.finish(court.start(0, 2))
    court.wait()
    going_on = court.get_pair(2, 3)
    assert refuse(court, going_on) == Reason.CLAIM_MEETING
    assert refuse(court, going_on, (ZERO, ZERO)) == Reason.NO_SUCH_CLAIM
    assert court.finish(court.start(1, 2)) == (court.members[2], Ending.SCALAR)
    court.start(2, 3)


def test_s6_claim_does_not_go_on_before_its_window_is_over(referee: Twin) -> None:
    """In the last block in which anybody may join its rival a claim may not meet another."""
    court = win_a_meeting(referee)
    assert refuse(court, court.get_pair(1, 3)) == Reason.CLAIM_MEETING
    join = ("join", court.members[2], court.job_id, court.get_top(2), court.named)
    assert referee.refused(*join, value_wei=court.terms.bond_wei) == Reason.TOO_LATE
    court.start(1, 3)


def test_s6_revived_claim_is_met_again_first(referee: Twin) -> None:
    """Who revives a claim in its last block has to be beaten before the other claim goes on."""
    court = win_a_meeting(referee)
    court.join(2)
    going_on = court.get_pair(1, 3)
    assert refuse(court, going_on) == Reason.CLAIM_MEETING
    assert court.finish(court.start(1, 2)) == (court.members[1], Ending.SCALAR)
    court.start(1, 3)


def test_s6_nothing_has_to_be_shown_of_claims_that_meet_or_met_none(referee: Twin) -> None:
    """Whatever is shown where nothing has to be, a match begins, and nothing else happens."""
    court = open_court(referee, LIE, LIE, HONEST).assemble()
    for one, other in ((0, 2), (1, 2)):
        *args, rivals = court.name_match(court.get_pair(one, other))
        assert rivals == (ZERO, ZERO)
        referee.call("start_match", court.client, *args, (UNKNOWN, court.get_top(2)))
    assert court.job.meetings == 1
