"""Moves from one tree into the next: the call for each kind of leaf, and its arguments."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from moot.contracts.model.descent import BOTH, NODE_TAGS
from moot.contracts.model.types import ZERO, Dive, Pair
from moot.contracts.reasons import Ending, LeafMode, Phase, Reason
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree, hash_root
from moot.offchain.disputes.play.descents import make_dive
from moot.offchain.disputes.play.players import get_tree
from moot.offchain.disputes.referee.board import Board
from moot.offchain.programs.graph import Origin
from moot.sim.synthetic.products import Lie, ProductRun, ProductTask, Size
from moot.sim.synthetic.run_length import RunLengthTree
from tests.attacks.court import HONEST, LIE, SMALL, Call, Court, open_court
from tests.attacks.twin import Twin
from tests.quick import every, only

LARGE = replace(SMALL, checkpoints=5000, operators=600, rows=256, columns=320)
"""All trees but those of intervals and of the state are higher than two openings."""
DEEP = Lie(step=5554, operator=277, element=9000, term=33)
STATE_LIE = Lie(step=6, operator=SMALL.operators)
FIRST_LIE = replace(LIE, step=0)
ONE_STEP = replace(SMALL, checkpoints=1, checkpoint_every=1)
TINY = Size(checkpoints=3, checkpoint_every=2, operators=6, rows=8, columns=8, terms=3)
"""An interval of two steps, a trace of seven leaves, and a chunk a tensor."""
TINY_LIE = Lie(step=3, operator=2, element=5, term=1)


def look(court: Court, pair: Pair) -> Board:
    """Return a match that is being played."""
    board = court.look(pair)
    assert board is not None
    return board


def get_run(court: Court, call: Call) -> ProductRun:
    """Return what the sender of a call claims."""
    run = court.runs[court.members.index(call.sender)]
    assert isinstance(run, ProductRun)
    return run


def make_pick(court: Court, call: Call) -> Dive:
    """Return the mover's pick at this place, as if it could go on to descend from there."""
    board = look(court, call.args[0])
    tree = get_tree(get_run(court, call), board.position.phase, board.facts)
    assert tree is not None
    dive = make_dive(tree, board.position, board.nodes)
    assert dive is not None
    return dive


def play_moves(court: Court, pair: Pair) -> Iterator[tuple[Call, Board]]:
    """Yield each move of a match before it is made, to the end."""
    while (board := court.look(pair)) is not None:
        call = court.find(pair)
        yield call, board
        court.make(call)


def swap(values: Sequence[object], place: int, value: object) -> tuple[object, ...]:
    """Return arguments with something else in one place."""
    return (*values[:place], value, *values[place + 1 :])


@pytest.mark.parametrize(
    ("lie", "mode", "entered"),
    every(
        6,
        [
            (
                LIE,
                LeafMode.SCALAR,
                ["enter_claimed", "enter_claimed", "enter_tensor", "reach_chunk"],
            ),
            (FIRST_LIE, LeafMode.SCALAR, ["enter_claimed"] * 2 + ["enter_tensor", "reach_chunk"]),
            (STATE_LIE, LeafMode.SCALAR, ["enter_claimed", "enter_claimed", "enter_state"]),
            (STATE_LIE, LeafMode.OPERATOR, ["enter_claimed", "enter_claimed", "enter_state"]),
        ],
    ),
)
def test_s11_descend_stops_at_no_leaf_that_has_a_call_of_its_own(
    referee: Twin, lie: Lie, mode: LeafMode, entered: list[str]
) -> None:
    """A pick that is right in everything is refused if it is sent as one that only picks."""
    court = open_court(referee, lie, HONEST, leaf_mode=mode, verifier=referee.accounts[7])
    pair, refused = court.begin(), []
    for call, board in play_moves(court, pair):
        at = board.position
        if at.phase in NODE_TAGS and at.entered == BOTH and call.name != "descend":
            descend = Call("descend", call.sender, (pair, at, make_pick(court, call)))
            assert court.refuse(descend) == Reason.WRONG_PHASE
            refused.append(call.name)
    assert refused == entered


@pytest.mark.parametrize("lie", [LIE, STATE_LIE])
def test_s11_nothing_is_entered_where_the_verifier_rules(referee: Twin, lie: Lie) -> None:
    """In a job of operators no output is opened, and the state after the step is, all the same.

    At an operator's leaf a pick ends the descent, and nothing can be entered there any more.
    """
    verifier = referee.accounts[7]
    court = open_court(referee, lie, HONEST, leaf_mode=LeafMode.OPERATOR, verifier=verifier)
    pair = court.begin()
    court.play_to(pair, Phase.TRACE, entered=BOTH)
    call, board = court.find(pair), look(court, pair)
    if lie is STATE_LIE:
        assert call.name == "enter_state"
        return
    assert call.name == "descend"
    commitment = court.task.commitment
    place = (commitment.encodings[4], tuple(commitment.tree.proof(4)))
    output = get_run(court, call).tensor(6, Origin.NODE, 4)
    args = (pair, board.position, board.facts, *place, output.top, call.args[-1])
    assert court.refuse(call, name="enter_tensor", args=args) == Reason.WRONG_PHASE
    state = (pair, board.position, output.top, call.args[-1])
    assert court.refuse(call, name="enter_state", args=state) == Reason.BAD_PROOF
    court.make(call)
    assert court.at(pair).phase is Phase.VERIFIER


@pytest.mark.parametrize(
    ("lie", "mode"),
    every(
        6,
        [
            (LIE, LeafMode.SCALAR),
            (STATE_LIE, LeafMode.SCALAR),
            (LIE, LeafMode.OPERATOR),
            (FIRST_LIE, LeafMode.SCALAR),
        ],
    ),
)
def test_s11_nobody_is_in_a_tree_once_its_leaf_is_reached(
    referee: Twin, lie: Lie, mode: LeafMode
) -> None:
    """In a tree one side or both have entered; at what a leaf stands for neither has anything."""
    court = open_court(referee, lie, HONEST, leaf_mode=mode, verifier=referee.accounts[7])
    pair, phases = court.begin(), set()
    while (board := court.look(pair)) is not None:
        at = board.position
        phases.add(at.phase)
        if at.phase in NODE_TAGS:
            assert at.entered in {1, BOTH}
            assert (at.entered == 1) <= (at.index == 0)
        else:
            assert (at.entered, at.level, at.span) == (0, 0, 0)
        if at.phase is Phase.VERIFIER:
            referee.call("rule", court.terms.verifier, pair, at, 2)
        else:
            court.make(court.find(pair))
    assert Phase.HISTORY in phases


def list_leaves(call: Call, run: ProductRun, board: Board) -> Iterator[tuple[Digest, Reason]]:
    """Yield what is not the mover's leaf where it picks, with the reason of the refusal."""
    dive = call.args[-1]
    tree = get_tree(run, board.position.phase, board.facts)
    assert tree is not None
    yield dive.node, Reason.SAME_NODE
    for leaf in (tree.top, ZERO, call.args[4], bytes(31) + b"\1"):
        yield leaf, Reason.BAD_PROOF


def test_s11_entrance_needs_the_leaf_that_is_claimed(referee: Twin) -> None:
    """A tree is entered from one's own claimed leaf, not from another that would fit the tree."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair, entrances = court.begin(), 0
    for call, board in play_moves(court, pair):
        if call.name != "enter_claimed" or board.position.entered != BOTH:
            continue
        entrances += 1
        for leaf, reason in list_leaves(call, get_run(court, call), board):
            assert leaf != call.args[3]
            assert court.refuse(call, args=swap(call.args, 3, leaf)) == reason
        # A tree of one's own making, over a state that has not been claimed, is one's own no more.
        tag = Tag.INTERVAL_NODE if board.position.phase is Phase.HISTORY else Tag.TRACE_NODE
        count = 4 if tag is Tag.INTERVAL_NODE else SMALL.operators + 1
        other = Tree(tag, [bytes([n]) * 32 for n in range(count)])
        opened = replace(call.args[-1], nodes=tuple(other.children(other.height, 0)))
        proof = tuple(other.proof(count - 1))
        forged = (other.node(0, count - 1), other.top, proof, opened)
        assert court.refuse(call, args=(*call.args[:3], *forged)) == Reason.BAD_PROOF
        honest_leaf = (call.args[3], other.top, proof, opened)
        assert court.refuse(call, args=(*call.args[:3], *honest_leaf)) == Reason.BAD_PROOF
    assert entrances == BOTH


def test_s11_second_entrance_ignores_its_leaf_and_nothing_else(referee: Twin) -> None:
    """Who follows has its claimed leaf in the position: what it says of it again does not count."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair, entrances = court.begin(), 0
    for call, board in play_moves(court, pair):
        if call.name != "enter_claimed" or board.position.entered != 1:
            continue
        entrances += 1
        with referee.branch():
            court.make(call)
            expected = replace(court.at(pair), deadline=0)
        for leaf in (board.position.nodes[board.position.mover], b"\7" * 32):
            with referee.branch():
                court.make(replace(call, args=swap(call.args, 3, leaf)))
                assert replace(court.at(pair), deadline=0) == expected
        for place, value in ((4, b"\7" * 32), (5, ()), (5, (ZERO,) * 2)):
            assert court.refuse(call, args=swap(call.args, place, value)) == Reason.BAD_PROOF
    assert entrances == BOTH


@pytest.mark.parametrize("size", [ONE_STEP, replace(SMALL, checkpoints=1)])
def test_s11_only_checkpoint_is_the_first_that_can_be_entered(referee: Twin, size: Size) -> None:
    """A history of one leaf has nothing to descend: its first move enters what led to the leaf.

    There is one place, with nothing beside it, and the tree that is entered ends in one's claim.
    """
    court = open_court(referee, FIRST_LIE, HONEST, size=size)
    pair = court.begin()
    call, at = court.find(pair), court.at(pair)
    dive, own = call.args[-1], at.nodes[0]
    assert (call.name, call.args[3]) == ("enter_claimed", own)
    assert (dive.child, dive.node, dive.siblings) == (0, at.nodes[1], ())
    pick = replace(dive, nodes=(own,))
    assert court.refuse(call, name="descend", args=(pair, at, pick)) == Reason.WRONG_PHASE
    for wrong, reason in (
        (replace(dive, child=1), Reason.OUT_OF_RANGE),
        (replace(dive, child=2**256 - 1), Reason.OUT_OF_RANGE),
        (replace(dive, siblings=(ZERO,)), Reason.BAD_PROOF),
        (replace(dive, siblings=(at.nodes[1], own)), Reason.BAD_PROOF),
        (replace(dive, node=court.terms.start_root), Reason.BAD_PROOF),
        (replace(dive, node=own), Reason.SAME_NODE),
    ):
        assert court.refuse(call, args=swap(call.args, len(call.args) - 1, wrong)) == reason
    assert court.refuse(call, args=swap(call.args, 3, court.terms.start_root)) == Reason.BAD_PROOF
    assert court.refuse(call, sender=pair.second) == Reason.NOT_YOURS
    assert court.finish(pair) == (court.members[1], Ending.SCALAR)


def test_s11_claimed_trees_are_entered_once(referee: Twin) -> None:
    """From a trace that both have entered, and from below, neither kind is entered again."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair, refused = court.begin(), set()
    entrance: Call | None = None
    for call, board in play_moves(court, pair):
        at = board.position
        if entrance is not None and (at.phase, at.entered) > (Phase.TRACE, 1):
            args = (pair, at, board.facts, *entrance.args[3:])
            for sender in court.members:
                reason = court.refuse(entrance, args=args, sender=sender)
                mover = (pair.first, pair.second)[at.mover]
                own = at.phase is Phase.TRACE and sender != mover
                assert reason == (Reason.NOT_YOURS if own else Reason.WRONG_PHASE)
            refused.add(at.phase)
        if call.name == "enter_claimed":
            entrance = call
    phases = {Phase.TRACE, Phase.TENSOR, Phase.CHUNK, Phase.FOLD, Phase.LEAF}
    assert refused == phases


def test_s11_nothing_is_entered_above_a_leaf(referee: Twin) -> None:
    """Where a pick leads to an inner node, no call treats that as a leaf, however well it fits."""
    court = open_court(referee, DEEP, HONEST, size=LARGE, clock_blocks=1000)
    pair, commitment = court.begin(), court.task.commitment
    refused = set()
    for call, board in play_moves(court, pair):
        at, inner = board.position, call.args[-1]
        if call.name != "descend" or at.span == 0:
            continue
        run = get_run(court, call)
        tree = get_tree(run, at.phase, board.facts)
        assert tree is not None
        node = tree.node(at.level - at.span, (at.index << at.span) + inner.child)
        place = (commitment.encodings[277], tuple(commitment.tree.proof(277)), node)
        attempts = {
            "enter_claimed": (board.facts, node, node, (), inner),
            "enter_tensor": (board.facts, *place, inner),
            "enter_state": (node, inner),
            "reach_chunk": (board.facts, replace(inner, nodes=()), bytes(256)),
        }
        for name, args in attempts.items():
            again = court.refuse(call, name=name, args=(pair, at, *args))
            assert again == Reason.WRONG_PHASE, (name, at.phase)
        refused.add(at.phase)
    assert refused == {Phase.HISTORY, Phase.TRACE, Phase.TENSOR}


def test_s11_tensor_is_entered_at_the_disputed_operator_only(referee: Twin) -> None:
    """No other output, agreed or disputed later, nor the state, nor a place beyond, is entered."""
    court = open_court(referee, LIE, HONEST, clock_blocks=1000)
    pair, commitment = court.begin(), court.task.commitment
    call = court.await_call(pair, "enter_tensor")
    board, run = look(court, pair), get_run(court, call)
    tree, right = run.trace(6), call.args[-1].child
    assert right == LIE.operator
    for child in range(tree.count):
        if child == right:
            continue
        operator = min(child, SMALL.operators - 1)
        place = commitment.encodings[operator], tuple(commitment.tree.proof(operator))
        output = run.tensor(6, Origin.NODE, operator)
        pick = replace(call.args[-1], child=child, node=board.nodes[child])
        args = (*call.args[:3], *place, output.top, pick)
        reasons = {Reason.SAME_NODE, Reason.BAD_PROOF}
        if child == SMALL.operators:
            reasons = {Reason.WRONG_PHASE}
        assert court.refuse(call, args=args) in reasons
    for child in (tree.count, 16, 2**55, 2**255, 2**256 - 1):
        pick = replace(call.args[-1], child=child)
        assert court.refuse(call, args=(*call.args[:-1], pick)) == Reason.OUT_OF_RANGE
    state = (pair, board.position, call.args[5], call.args[-1])
    assert court.refuse(call, name="enter_state", args=state) == Reason.BAD_PROOF


class Disguised(ProductRun):
    """A run that presents an operator's output as a state."""

    def __init__(self, task: ProductTask, lie: Lie) -> None:
        super().__init__(task, lie)
        self.disguise = Tree(Tag.STATE_NODE, [bytes([n]) * 32 for n in range(1, 4)])

    def trace(self, step: int) -> Tree:
        """Return a trace with the root of a state in the place of the first wrong output."""
        lied = super().trace(step)
        leaves = {place: lied.node(0, place) for place in range(lied.count)}
        leaves[self.lie.operator] = hash_root(Tag.STATE_ROOT, 3, self.disguise.top)
        return RunLengthTree(Tag.TRACE_NODE, lied.count, leaves)


def test_s11_state_is_entered_behind_the_last_operator_only(referee: Twin) -> None:
    """Who hides a state among the outputs can't open it there, and loses by its clock."""
    court = open_court(referee, LIE, HONEST)
    liar = Disguised(court.synthetic, LIE)
    court.runs = [liar, court.runs[1]]
    pair = court.begin()
    court.play_to(pair, Phase.TRACE, entered=BOTH)
    at = court.at(pair)
    if (pair.first, pair.second)[at.mover] == court.members[0]:
        board = look(court, pair)
        pick = make_dive(liar.trace(6), at, board.nodes)
        assert pick is not None
        opened = replace(pick, nodes=tuple(liar.disguise.children(liar.disguise.height, 0)))
        args = (pair, at, liar.disguise.top, opened)
        assert court.refuse(Call("enter_state", court.members[0], args)) == Reason.WRONG_PHASE
    else:
        court.make(court.find(pair))
        at = court.at(pair)
        assert (at.phase, at.entered) == (Phase.TENSOR, 1)
        state = Call(
            "enter_state", court.members[0], (pair, at, liar.disguise.top, Dive(0, ZERO, (), ()))
        )
        assert court.refuse(state) == Reason.WRONG_PHASE
    referee.mine_to(at.deadline + 1)
    referee.call("timeout", court.client, pair, at)
    assert referee.member(court.job_id, court.members[1]).prizes == 1


@pytest.mark.parametrize(
    ("lie", "size", "trees"),
    every(
        8,
        [
            (LIE, SMALL, [Phase.INTERVAL, Phase.TRACE, Phase.TENSOR]),
            (STATE_LIE, SMALL, [Phase.INTERVAL, Phase.TRACE, Phase.STATE]),
            (TINY_LIE, TINY, [Phase.INTERVAL, Phase.TRACE, Phase.TENSOR]),
        ],
    ),
)
@pytest.mark.parametrize("is_first", only({True}, [False, True]))
def test_s8_second_to_enter_a_small_tree_opens_its_own(
    referee: Twin,
    lie: Lie,
    size: Size,
    trees: list[Phase],
    is_first: bool,  # noqa: FBT001 - a test's case
) -> None:
    """Where the first has shown leaves the second shows its own, and picks nothing.

    What it says of a pick is not read; of what it opens there is one form, also of a single leaf.
    """
    lies = (lie, HONEST) if is_first else (HONEST, lie)
    court = open_court(referee, *lies, size=size, clock_blocks=1000)
    pair, entered = court.begin(), []
    for call, board in play_moves(court, pair):
        at = board.position
        if at.entered != 1:
            continue
        assert at.level == at.span
        entered.append(at.phase)
        dive = call.args[-1]
        with referee.branch():
            court.make(call)
            expected = court.at(pair)
        stray = Dive(2**256 - 1, board.nodes[0], (b"\7" * 32,) * 8, dive.nodes)
        with referee.branch():
            court.make(replace(call, args=(*call.args[:-1], stray)))
            assert court.at(pair) == expected
        wrong = ((), board.nodes, dive.nodes[:-1], (*dive.nodes, ZERO), (*dive.nodes[:-1], ZERO))
        for nodes in wrong:
            args = (*call.args[:-1], replace(dive, nodes=nodes))
            assert court.refuse(call, args=args) == Reason.BAD_OPENING
        assert (expected.entered, expected.level, expected.index) == (BOTH, at.level, 0)
    assert entered == trees
    assert referee.member(court.job_id, court.members[lies.index(HONEST)]).prizes == 1


def test_s8_single_leaf_is_picked_without_siblings(referee: Twin) -> None:
    """In a tensor of one chunk there is one place, and nothing beside it."""
    court = open_court(referee, TINY_LIE, HONEST, size=TINY, clock_blocks=1000)
    pair = court.begin()
    call = court.await_call(pair, "reach_chunk")
    at, dive = court.at(pair), call.args[3]
    assert (at.level, at.span, at.count) == (0, 0, 1)
    assert (dive.child, dive.siblings) == (0, ())
    cases = {
        Reason.OUT_OF_RANGE: [replace(dive, child=1), replace(dive, child=2**255)],
        Reason.BAD_PROOF: [
            replace(dive, siblings=(ZERO,)),
            replace(dive, siblings=(dive.node, ZERO)),
            replace(dive, node=ZERO),
        ],
        Reason.SAME_NODE: [replace(dive, node=at.nodes[at.mover])],
    }
    for reason, bent in cases.items():
        for other in bent:
            assert court.refuse(call, args=swap(call.args, 3, other)) == reason
    assert court.finish(pair) == (court.members[1], Ending.SCALAR)


def test_s8_second_to_enter_a_large_tree_picks_at_once(referee: Twin) -> None:
    """Where the first has shown no leaves yet the second can't open its own top instead."""
    court = open_court(referee, DEEP, HONEST, size=LARGE, clock_blocks=1000)
    pair, refused = court.begin(), []
    for call, board in play_moves(court, pair):
        at = board.position
        if at.entered != 1 or at.level == at.span:
            continue
        tree = get_tree(get_run(court, call), at.phase, board.facts)
        assert tree is not None
        top = tuple(tree.children(tree.height, 0))
        for dive in (Dive(0, ZERO, (), top), replace(call.args[-1], nodes=top)):
            reason = court.refuse(call, args=(*call.args[:-1], dive))
            assert reason in {Reason.BAD_OPENING, Reason.BAD_PROOF}
        refused.append(at.phase)
    assert refused == [Phase.TRACE, Phase.TENSOR]
