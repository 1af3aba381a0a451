"""Jobs whose leaves the bounded verifier decides, and what members can do if it is silent."""

import pytest

from moot.contracts.model.types import Pair
from moot.contracts.reasons import Ending, LeafMode, Outcome, Phase, Reason, Standing, Status
from moot.sim.synthetic.products import Lie
from tests.attacks.court import HONEST, REWARD_WEI, Court, open_court, read_end
from tests.attacks.twin import Twin

VERIFIER = 7
"""The account of the bounded verifier."""
ONE, OTHER = Lie(step=3, operator=3, mask=1), Lie(step=6, operator=4, mask=2)
"""Two lies that part from each other at an operator, and so from the truth."""


def open_job(referee: Twin, *lies: Lie | None) -> Court:
    """Open a job of operators, with a member for each lie."""
    court = open_court(
        referee, *lies, leaf_mode=LeafMode.OPERATOR, verifier=referee.accounts[VERIFIER]
    )
    return court.assemble()


def bring(court: Court, one: int, other: int) -> Pair:
    """Play a match of two members up to the verifier."""
    pair = court.start(one, other)
    court.play_to(pair, Phase.VERIFIER)
    return pair


def fall_silent(court: Court, pair: Pair) -> None:
    """Let the verifier's time for a match pass, and end it."""
    at = court.at(pair)
    assert court.referee.refused("timeout", court.client, pair, at) == Reason.CLOCK_RUNNING
    court.referee.mine_to(at.deadline + 1)
    events = court.referee.call("timeout", court.client, pair, at)
    assert events[-1].args[3:] == (Outcome.UNDECIDED, Ending.CLOCK, 0)


def collect_all(court: Court) -> dict[str, int]:
    """Let everybody collect, and return what each was paid; nothing is left."""
    paid = {}
    for account in (court.client, *court.members):
        if court.referee.debt(court.job_id, account):
            (event,) = court.referee.call("collect", account, court.job_id)
            paid[account] = int(str(event.args[2]))
        refused = court.referee.refused("collect", account, court.job_id)
        assert refused == Reason.NOTHING_OWED
    assert court.referee.store.balance_wei == 0
    return paid


@pytest.mark.parametrize("seats", [(ONE, OTHER, HONEST), (HONEST, OTHER, ONE)])
def test_v5_two_liars_that_show_nothing_void_no_job(
    referee: Twin, seats: tuple[Lie | None, ...]
) -> None:
    """Two that agree on operands which only they have, and show none, both lose their bonds.

    The honest member is paid the reward, whatever they do with each other.
    """
    court = open_job(referee, *seats)
    honest = seats.index(HONEST)
    liars = [seat for seat in range(3) if seat != honest]
    pair = bring(court, *liars)
    verifier = court.terms.verifier
    events = referee.call("rule", verifier, pair, court.at(pair), Outcome.NEITHER)
    assert read_end(events) == (None, Ending.VERIFIER)
    court.settle(honest)
    assert court.job.status is Status.WON
    bond_wei = court.terms.bond_wei
    assert collect_all(court) == {court.members[honest]: bond_wei + REWARD_WEI}
    assert referee.store.burned_wei == 2 * bond_wei


def test_v5_silent_verifier_ends_its_match_and_no_other(referee: Twin) -> None:
    """The members of its match are out and keep their bonds; others play on, win and lose bonds."""
    court = open_job(referee, ONE, OTHER, HONEST, HONEST)
    fall_silent(court, bring(court, 0, 1))
    standings = [referee.member(court.job_id, member).standing for member in court.members]
    out, left = Standing.RELEASED, Standing.REVEALED
    assert standings == [out, out, left, left]
    assert (court.job.claims, court.job.defeated, court.job.forfeits) == (1, 0, 0)
    for other in (2, 3):
        args = court.name_match(court.get_pair(0, other))
        assert referee.refused("start_match", court.client, *args) == Reason.NOT_CONTENDER
    court.settle(2)
    assert court.job.status is Status.EMPTY
    bond_wei = court.terms.bond_wei
    paid = {court.client: REWARD_WEI} | dict.fromkeys(court.members, bond_wei)
    assert collect_all(court) == paid
    assert referee.store.burned_wei == 0


def test_m16_lie_does_not_win_because_the_verifier_is_silent(referee: Twin) -> None:
    """If the verifier is silent in the honest member's match, no claim that is left is paid.

    Neither a second member of the same lie, nor another lie; the client has the reward back.
    """
    for rest in (ONE, OTHER):
        with referee.branch():
            court = open_job(referee, HONEST, ONE, rest)
            fall_silent(court, bring(court, 0, 1))
            assert court.job.claims == 1
            court.settle(2)
            assert court.job.status is Status.EMPTY
            bond_wei = court.terms.bond_wei
            assert collect_all(court)[court.members[2]] == bond_wei
            assert referee.store.burned_wei == 0


def test_m7_released_member_keeps_its_prizes_and_its_bond(referee: Twin) -> None:
    """Prizes that it has won stay its own, and are paid once; what others lose is still burned."""
    court = open_job(referee, HONEST, ONE, ONE, OTHER)
    pair = bring(court, 0, 1)
    right = (pair.first, pair.second).index(court.members[0])
    referee.call("rule", court.terms.verifier, pair, court.at(pair), right)
    fall_silent(court, bring(court, 0, 2))
    found = referee.member(court.job_id, court.members[0])
    assert (found.standing, found.prizes) == (Standing.RELEASED, 1)
    court.settle(3)
    bond_wei = court.terms.bond_wei
    assert collect_all(court) == {
        court.client: REWARD_WEI,
        court.members[0]: bond_wei + bond_wei // 2,
        court.members[2]: bond_wei,
        court.members[3]: bond_wei,
    }
    assert referee.store.burned_wei == bond_wei - bond_wei // 2


def test_c4_match_of_a_member_that_is_out_releases_nobody(referee: Twin) -> None:
    """A silent verifier does not take a member out by a match that another one has overtaken."""
    court = open_job(referee, HONEST, ONE, ONE)
    pairs = bring(court, 0, 1), bring(court, 0, 2)
    last = max(court.at(pair).deadline for pair in pairs)
    ats = [court.at(pair) for pair in pairs]
    referee.mine_to(last + 1)
    referee.call("timeout", court.client, pairs[0], ats[0])
    assert referee.refused("timeout", court.client, pairs[0], ats[0]) == Reason.STALE
    assert referee.refused("timeout", court.client, pairs[1], ats[1]) == Reason.NOT_CONTENDER
    left = referee.member(court.job_id, court.members[2])
    assert left.standing is Standing.REVEALED
    late = referee.refused("rule", court.terms.verifier, pairs[1], ats[1], Outcome.FIRST)
    assert late == Reason.CLOCK_EXPIRED
