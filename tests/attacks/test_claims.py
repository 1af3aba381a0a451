from dataclasses import replace

import pytest

from moot.contracts.model.descent import BOTH
from moot.contracts.model.types import KEY_BYTES, ZERO, Dive
from moot.contracts.reasons import Ending, LeafMode, Phase, Reason, Standing, Status
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree
from moot.offchain.disputes.play import descents as dives
from moot.offchain.disputes.play import players
from moot.offchain.disputes.play.pairing import choose_pairs
from moot.offchain.disputes.play.tournament import Tournament
from moot.sim.synthetic.products import Lie
from tests.attacks.court import HONEST, LIE, SALT, SMALL, Call, Court, FalseFlag, open_court
from tests.attacks.twin import Twin
from tests.quick import every

FIRST = Lie(step=0, operator=4, element=77, term=33)
"""A lie in the job's first step."""


def get_standings(court: Court) -> list[Standing]:
    """Return where all members stand."""
    return [court.referee.member(court.job_id, member).standing for member in court.members]


@pytest.mark.parametrize("phase", every(6, [Phase.HISTORY, Phase.TRACE, Phase.TENSOR]))
def test_s1_no_place_but_the_first_difference_can_be_picked(referee: Twin, phase: Phase) -> None:
    """Left of it there is nothing to dispute, and right of it the trees do not meet above."""
    size = replace(SMALL, checkpoints=40, operators=600, rows=128, columns=320, terms=2)
    lie = Lie(step=86, operator=277, element=77 * 8, term=1)
    court = open_court(referee, lie, HONEST, size=size)
    pair = court.begin()
    court.play(pair, lambda at: at.phase is phase and at.span > 0 and at.entered == 2)
    board = court.look(pair)
    assert board is not None
    move = court.find(pair)
    assert move.name == "descend"
    at, right = board.position, move.args[-1].child
    assert 0 < right < len(board.nodes) - 1
    run = court.runs[court.members.index(move.sender)]
    tree = players.get_tree(run, at.phase, board.facts)
    assert tree is not None
    for child in range(len(board.nodes)):
        if child == right:
            continue
        reason = Reason.SAME_NODE if child < right else Reason.BAD_PROOF
        level, index = at.level - at.span, (at.index << at.span) + child
        own = tuple(tree.children(level, index))
        siblings = tuple(dives._list_siblings(tree, Tree(tree.tag, board.nodes), at, child))
        dive = Dive(child, board.nodes[child], siblings, own)
        assert court.refuse(move, args=(*move.args[:-1], dive)) == reason
    court.make(move)


def test_s1_sides_cannot_be_told_apart_by_who_plays_them(referee: Twin) -> None:
    """A move that is bound leads to the same place, and the same node, whoever sends it."""
    court = open_court(referee, LIE, HONEST, HONEST)
    pair = court.begin()
    while (board := court.look(pair)) is not None:
        move = court.find(pair)
        if move.name == "descend":
            with referee.branch():
                court.make(replace(move, sender=court.members[2]))
                others = court.look(pair)
            court.make(move)
            own = court.look(pair)
            assert own is not None
            assert others is not None
            assert own.position == others.position
        else:
            court.make(move)
        assert board.position.moves < 30


@pytest.mark.parametrize("seats", [(LIE, HONEST), (HONEST, LIE)])
def test_s2_sides_are_alike(referee: Twin, seats: tuple[Lie | None, ...]) -> None:
    """There is no attack and no defence: the truth wins as the first side, and as the second."""
    court = open_court(referee, *seats)
    winner = court.members[seats.index(HONEST)]
    assert court.finish(court.begin()) == (winner, Ending.SCALAR)


def test_s3_honest_members_never_play_each_other(referee: Twin) -> None:
    """Nobody can begin a match between members of one claim, and no agent wants to."""
    court = open_court(referee, HONEST, HONEST).assemble()
    pair = court.get_pair(0, 1)
    again = court.name_match(pair)
    assert referee.refused("start_match", court.client, *again) == Reason.NO_DISPUTE
    assert referee.refused("start_match", court.client, 0, pair.first, pair.first, *again[3:]) == (
        Reason.WRONG_ORDER
    )
    tournament = Tournament(court.job_id, court.terms)
    tournament.read(referee.events(court.job_id))
    assert list(choose_pairs(tournament, referee.block_number() + 1)) == []


def test_s3_honest_agent_does_not_answer_itself(referee: Twin) -> None:
    """An agent makes one move, and then waits for the other side's."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    for _ in range(6):
        move = court.find(pair)
        court.make(move)
        board = court.look(pair)
        assert board is not None
        side = (pair.first, pair.second).index(move.sender)
        run = court.runs[court.members.index(move.sender)]
        assert players.find_move(run, court.terms, board, side) is None


@pytest.mark.parametrize("every", [1, 9])
@pytest.mark.parametrize("lies", [(FIRST, HONEST), (HONEST, FIRST)])
def test_s4_no_claim_says_how_the_job_starts(
    referee: Twin, every: int, lies: tuple[Lie | None, ...]
) -> None:
    """In a job of one interval a claim is the root of the state after it, and nothing else.

    A match about it begins in the interval, or, if that is a step, in this: the state before is the
    client's. So no two claims differ in it, and no match can end by it.
    """
    size = replace(SMALL, checkpoints=1, checkpoint_every=every)
    court = open_court(referee, *lies, size=size)
    for seat, run in enumerate(court.runs):
        assert court.get_top(seat) == run.interval(0).node(0, every - 1)
        assert court.get_top(seat) != court.terms.start_root
    pair = court.begin()
    at, entering = court.at(pair), court.find(pair)
    assert (at.count, at.level, at.span, at.entered) == (1, 0, 0, 2)
    assert entering.name == "enter_claimed"
    court.make(entering)
    at, board = court.at(pair), court.look(pair)
    assert (at.phase, at.moves) == (Phase.TRACE if every == 1 else Phase.INTERVAL, 1)
    assert board is not None
    assert (board.facts.checkpoint, board.facts.first_step, board.facts.step) == (0, 0, 0)
    assert court.finish(pair) == (court.members[lies.index(HONEST)], Ending.SCALAR)


def test_s4_one_checkpoint_is_disputed_before_the_verifier_too(referee: Twin) -> None:
    """Where operators are ruled on, a job of one step is played down to the first wrong output."""
    verifier, size = referee.accounts[7], replace(SMALL, checkpoints=1, checkpoint_every=1)
    court = open_court(
        referee, FIRST, HONEST, size=size, leaf_mode=LeafMode.OPERATOR, verifier=verifier
    )
    pair = court.begin()
    court.play_to(pair, Phase.VERIFIER)
    assert court.at(pair).index == FIRST.operator
    outcome = (pair.first, pair.second).index(court.members[1])
    referee.call("rule", verifier, pair, court.at(pair), outcome)
    court.settle(1)
    assert get_standings(court) == [Standing.DEFEATED, Standing.REVEALED]


def test_s5_honest_root_defended_by_silence_costs_its_defender_only(referee: Twin) -> None:
    """Who posts the honest root and is silent loses its bond; the claim wins through others."""
    court = open_court(referee, HONEST, LIE, HONEST).assemble()
    pair = court.start(0, 1)
    while (at := court.at(pair)).mover != (pair.first, pair.second).index(court.members[0]):
        court.make(court.find(pair))
    referee.mine_to(at.deadline + 1)
    referee.call("timeout", court.client, pair, at)
    assert court.finish(court.start(1, 2)) == (court.members[2], Ending.SCALAR)
    assert get_standings(court) == [Standing.DEFEATED, Standing.DEFEATED, Standing.REVEALED]
    court.settle(2)
    bond = court.terms.bond_wei
    (paid,) = referee.call("collect", court.members[2], court.job_id)
    assert paid.args[2] == bond + bond // 2 + court.job.reward_wei
    # Half of each lost bond is burned, and the prize of the false flag's match with its winner.
    assert referee.store.burned_wei == 2 * (bond - bond // 2) + bond // 2


@pytest.mark.parametrize("late", [False, True])
def test_s5_honest_root_defended_by_a_lie_does_not_fall(referee: Twin, late: bool) -> None:  # noqa: FBT001 - a test's case
    """A false flag loses its own match; the claim wins through a member that joined, or joins."""
    court = open_court(referee, HONEST, LIE, HONEST)
    court.runs = [FalseFlag(court.synthetic, replace(LIE, element=0)), *court.runs[1:]]
    court.assemble([0, 1] if late else None)
    assert court.finish(court.start(0, 1))[0] == court.members[1]
    if late:
        court.join(2)
    assert court.finish(court.start(1, 2)) == (court.members[2], Ending.SCALAR)
    court.settle(2)
    assert court.job.status is Status.WON
    # Who joins a claim late gets prizes and its bond, and no share of the reward.
    assert court.job.is_client_owed == late
    referee.call("collect", court.members[2], court.job_id)


def test_s6_nobody_joins_twice_or_comes_back(referee: Twin) -> None:
    """One account has one seat, before and after its defeat, and shows one claim."""
    court = open_court(referee, LIE, HONEST)
    court.commit(0)
    bond = court.terms.bond_wei
    again = ("commit", court.members[0], court.job_id, SALT, court.named)
    assert referee.refused(*again, value_wei=bond) == Reason.ALREADY_JOINED
    court.commit(1)
    referee.mine_to(court.job.commit_deadline + 1)
    court.reveal(0)
    court.reveal(1)
    for top in (court.get_top(0), court.get_top(1)):
        reveal = ("reveal", court.members[0], court.job_id, top, SALT)
        assert referee.refused(*reveal) == Reason.NOT_COMMITTED
    referee.mine_to(court.job.reveal_deadline + 1)
    join = ("join", court.members[0], court.job_id, court.get_top(0), court.named)
    assert referee.refused(*join, value_wei=bond) == Reason.ALREADY_JOINED
    court.finish(court.start())
    assert referee.refused(*join, value_wei=bond) == Reason.ALREADY_JOINED
    pair = court.get_pair()
    match = court.name_match(pair)
    assert referee.refused("start_match", court.client, *match) == Reason.NOT_CONTENDER


def test_s6_one_match_for_two_members(referee: Twin) -> None:
    """The match of two members can't be begun twice, while it is played or after it."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    match = court.name_match(pair)
    assert referee.refused("start_match", court.client, *match) == Reason.MATCH_EXISTS
    swapped = (court.job_id, pair.second, pair.first, *(both[::-1] for both in match[3:]))
    assert referee.refused("start_match", court.client, *swapped) == Reason.WRONG_ORDER


def test_s6_one_root_from_two_accounts_is_one_claim(referee: Twin) -> None:
    """Members with the same root share the reward, and do not play each other."""
    court = open_court(referee, HONEST, HONEST).assemble()
    court.settle(0)
    for member in court.members:
        (paid,) = referee.call("collect", member, court.job_id)
        assert paid.args[2] == court.terms.bond_wei + court.job.reward_wei // 2
    assert referee.store.burned_wei == court.job.reward_wei % 2


def test_s6_equivocator_wins_no_more_than_the_truth_does(referee: Twin) -> None:
    """Who holds the truth and a lie under two accounts beats itself, and half a bond is burned."""
    court = open_court(referee, LIE, HONEST)
    court.finish(court.begin())
    court.settle(1)
    referee.call("collect", court.members[1], court.job_id)
    assert referee.store.burned_wei == court.terms.bond_wei - court.terms.bond_wei // 2


def test_s6_eliminated_claim_does_not_come_back(referee: Twin) -> None:
    """After its window nobody can join a claim that has met its rival and has nobody left."""
    court = open_court(referee, LIE, HONEST, LIE)
    court.assemble([0, 1])
    court.finish(court.start(0, 1))
    with referee.branch():
        court.join(2)
        assert court.job.claims == 2
    court.wait()
    join = ("join", court.members[2], court.job_id, court.get_top(2), court.named)
    assert referee.refused(*join, value_wei=court.terms.bond_wei) == Reason.TOO_LATE
    court.settle(1)


def test_s6_near_duplicate_does_not_keep_a_claim_out(referee: Twin) -> None:
    """Who knows the true top can't keep it out by a claim that agrees with it in most bytes."""
    court = open_court(referee, HONEST, HONEST)
    top = court.get_top(0)
    near = top[:KEY_BYTES] + bytes(32 - KEY_BYTES)
    thief, bond = court.members[1], court.terms.bond_wei
    digest = referee.commitment(court.job_id, thief, near, SALT)
    referee.call("commit", thief, court.job_id, digest, court.named, value_wei=bond)
    court.commit(0)
    referee.mine_to(court.job.commit_deadline + 1)
    referee.call("reveal", thief, court.job_id, near, SALT)
    court.reveal(0)
    referee.mine_to(court.job.reveal_deadline + 1)
    pair = court.start()
    referee.mine_to(court.at(pair).deadline)
    court.make(court.find(pair))


def test_s7_zero_as_a_claim_is_a_claim(referee: Twin) -> None:
    """A member may show thirty-two zero bytes as its claim: it is disputed, and it falls."""
    court = open_court(referee, HONEST, HONEST)
    zero, bond = court.members[1], court.terms.bond_wei
    digest = referee.commitment(court.job_id, zero, ZERO, ZERO)
    referee.call("commit", zero, court.job_id, digest, court.named, value_wei=bond)
    court.commit(0)
    referee.mine_to(court.job.commit_deadline + 1)
    referee.call("reveal", zero, court.job_id, ZERO, ZERO)
    court.reveal(0)
    court.wait()
    settle = ("settle", court.client, court.job_id)
    for top in (ZERO, court.get_top(0)):
        assert referee.refused(*settle, top) == Reason.STILL_DISPUTED
    pair = court.start()
    at = court.at(pair)
    assert ZERO in at.nodes
    side = at.nodes.index(ZERO)
    if at.mover != side:
        court.make(court.find(pair))
    at, board = court.at(pair), court.look(pair)
    assert board is not None
    nodes = board.nodes or (court.get_top(0),)
    for opened in ((), (ZERO,), (ZERO,) * 5, (ZERO,) * 16):
        dive = Dive(0, nodes[0], (), opened)
        refused = referee.refused("descend", zero, pair, at, dive)
        assert refused in {Reason.BAD_OPENING, Reason.BAD_PROOF}
    referee.mine_to(at.deadline + 1)
    referee.call("timeout", court.members[0], pair, at)
    court.settle(0)


def test_s7_zero_as_a_commitment_is_a_seat(referee: Twin) -> None:
    """A member may commit to zero; it has a seat, and a bond to lose."""
    court = open_court(referee, HONEST)
    member, bond = court.members[0], court.terms.bond_wei
    commit = ("commit", member, court.job_id, ZERO, court.named)
    referee.call(*commit, value_wei=bond)
    assert referee.refused(*commit, value_wei=bond) == Reason.ALREADY_JOINED
    referee.mine_to(court.job.commit_deadline + 1)
    assert referee.refused("reveal", member, court.job_id, ZERO, ZERO) == Reason.NOT_COMMITTED
    court.settle(0)
    assert court.job.status is Status.EMPTY
    assert referee.store.burned_wei == bond


def test_s7_claims_that_nobody_made_do_not_exist(referee: Twin) -> None:
    """Zero, and any other top that nobody has shown, can't be settled, met or played."""
    court = open_court(referee, HONEST, LIE)
    court.assemble([0])
    court.wait()
    for top in (ZERO, court.get_top(1)):
        refused = referee.refused("settle", court.client, court.job_id, top)
        assert refused == Reason.NO_SUCH_CLAIM
    ghost = court.get_pair()
    match = court.name_match(ghost)
    assert referee.refused("start_match", court.client, *match) == Reason.NOT_CONTENDER
    court.settle(0)


def test_s7_zero_state_and_zero_operands_are_content_like_any_other(referee: Twin) -> None:
    """A lie about a state that is all zeros is decided like any other."""
    court = open_court(referee, Lie(0, element=3, mask=0x80000000), HONEST)
    assert court.finish(court.begin()) == (court.members[1], Ending.SCALAR)


def test_s9_the_same_terms_make_another_job(referee: Twin) -> None:
    """Whatever a client says, its job gets its own number, and takes nobody else's."""
    court = open_court(referee, HONEST)
    (opened,) = referee.call("open_job", court.members[0], court.terms)
    assert opened.args[0] == court.job_id + 1
    assert referee.job(court.job_id + 1).client == court.members[0]
    assert referee.job(court.job_id).client == court.client


@pytest.mark.parametrize(
    ("name", "value"),
    every(
        6,
        [
            ("steps", 0),
            ("steps", 2**32 + 1),
            ("steps", 2**64 + 16),
            ("checkpoint_every", 0),
            ("checkpoint_every", 21),
            ("checkpoint_every", 2**64 + 4),
            ("operators", 0),
            ("operators", 2),
            ("operators", 2**20 + 1),
            ("operators", 2**32 + 9),
            ("state_slots", 0),
            ("state_slots", 2**16 + 1),
            ("state_slots", 2**32 + 3),
            ("batch_slots", 2**16 + 1),
            ("batch_slots", 2**256 - 1),
            ("leaf_mode", 2),
            ("leaf_mode", 2**8),
        ],
    ),
)
def test_s9_absurd_terms_open_no_job(referee: Twin, name: str, value: int) -> None:
    """No count is 0, above its bound, or cut to fit where it is kept."""
    court = open_court(referee, HONEST)
    terms = replace(court.terms, **{name: value})  # type: ignore[arg-type]  # all of these are integers
    assert referee.refused("open_job", court.client, terms) == Reason.ABSURD_TERMS


def test_s10_nobody_but_the_job_says_how_long_a_history_is(referee: Twin) -> None:
    """A claim over more or fewer states than the job has can't be opened, and loses."""
    honest = open_court(referee, HONEST).runs[0].history
    roots = [honest.node(0, i) for i in range(honest.count)]
    for wrong in (roots[:-1], [*roots, roots[-1]], roots * 3):
        court = open_court(referee, LIE, HONEST)
        court.runs[0].__dict__["history"] = liar = Tree(Tag.HISTORY_NODE, wrong)
        pair = court.begin()
        at = court.at(pair)
        if (pair.first, pair.second)[at.mover] != court.members[0]:
            court.make(court.find(pair))
            at = court.at(pair)
        board = court.look(pair)
        assert board is not None
        for nodes in (wrong[:16], liar.children(liar.height, 0), liar.children(1, 0)):
            theirs = board.nodes[0] if board.nodes else court.get_top(1)
            dive = Dive(0, theirs, (), tuple(nodes))
            refused = referee.refused("descend", court.members[0], pair, at, dive)
            assert refused in {Reason.BAD_OPENING, Reason.BAD_PROOF, Reason.SAME_NODE}
        referee.mine_to(at.deadline + 1)
        referee.call("timeout", court.members[1], pair, at)


def test_s11_trees_of_other_phases_cannot_be_entered(referee: Twin) -> None:
    """A history, an interval, a trace and a state can't stand for one another."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    entrances = 0
    while court.look(pair) is not None:
        move = court.find(pair)
        if move.name == "enter_claimed":
            run = court.runs[court.members.index(move.sender)]
            trees = run.history, run.interval(4), run.trace(6)
            for other in trees:
                if other.top != move.args[4]:
                    proof = tuple(other.proof(other.count - 1))
                    args = (*move.args[:4], other.top, proof, move.args[-1])
                    assert court.refuse(move, args=args) == Reason.BAD_PROOF
            entrances += 1
        court.make(move)
    assert entrances == 4


_OF_PHASES = {Reason.WRONG_PHASE, Reason.STALE}
_OF_PICKS = {Reason.BAD_OPENING, Reason.BAD_PROOF, Reason.SAME_NODE, Reason.OUT_OF_RANGE}
"""Why a pick of another place is refused where one is due; `test_entering` has those of this."""


def test_s11_moves_of_another_phase_are_refused(referee: Twin) -> None:
    """At every step of a match all moves but those of its phase are refused."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    seen: dict[str, Call] = {}
    while court.look(pair) is not None:
        move = court.find(pair)
        at = court.at(pair)
        for name, call in seen.items():
            if name != move.name:
                args = (pair, at, *call.args[2:])
                refused = court.refuse(call, args=args, sender=move.sender)
                is_pick = name == "descend" and at.entered == BOTH
                assert refused in (_OF_PICKS if is_pick else _OF_PHASES), (name, move.name)
        seen[move.name] = move
        court.make(move)
    assert set(seen) == {"descend", "enter_claimed", "enter_tensor"} | {
        "reach_chunk",
        "pick_element",
        "pick_segment",
        "leaf",
    }
