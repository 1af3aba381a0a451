from collections.abc import Iterable

import numpy as np
import pytest

from contracts.reasons import Ending, LeafMode, Phase, Reason
from offchain.arithmetic.functions import DType
from offchain.commitments.tags import Tag
from offchain.commitments.tensors import Array
from offchain.commitments.tree import Tree
from offchain.programs.graph import Kind
from tests.lockstep.claims import Claim, Task, Tensors, cheating, flip
from tests.lockstep.game import Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.tasks import folds, functions, honest_kinds, kinds

VERIFIER = 8
"""The account of the bounded verifier."""

SCALAR_LEAVES = {
    "source of a state": (1, 69),
    "source of a batch": (3, 11),
    "contract": (5, 7),
    "reduce with an operand as its beginning": (6, 0),
    "argmax": (7, 1),
    "move of the first candidate": (8, 3),
    "move of the second candidate": (8, 19),
    "move of the constant": (8, 0),
    "gather": (9, 4),
    "scatter-add": (10, 2),
    "scatter-add that nothing lands on": (10, 1),
    "scatter of the last": (11, 2),
    "random": (12, 4),
    "map": (13, 65),
    "fold over nothing": (16, 1),
    "sink": (20, 0),
}


def play(referee: Lockstep, task: Task, *claims: Claim) -> tuple[int, Ending]:
    """Play the first match of a job with these claims."""
    return Game(referee, task, list(claims)).assemble().start().finish()


def dispute_each(
    referee: Lockstep, task: Task, targets: Iterable[tuple[int, int]], *, is_right: bool
) -> None:
    """Dispute elements one by one, of an honest trace or of one that is wrong in all of them."""
    wrong = list(targets)

    def cheat(_step: int, index: int, array: Array) -> Array:
        for operator, element in wrong:
            array = flip(array, element) if operator == index else array
        return array

    liar = Claim(task, cheat, cheating(task, 0, 0).fake)
    claims = [Claim(task), liar] if is_right else [liar, Claim(task)]
    game = Game(referee, task, claims).assemble().start().play_to(Phase.TRACE, opened=True)
    shown = game.shown
    for game.target in wrong:
        with referee.branch():
            assert game.finish() == (1 - is_right, Ending.SCALAR), game.target
        game.shown = shown


@pytest.mark.parametrize("is_right", [True, False])
def test_scalar_decides_every_kind_of_operator(referee: Lockstep, is_right: bool) -> None:  # noqa: FBT001
    """A wrong element of any kind loses, and a wrong objection to a right one loses too."""
    dispute_each(referee, kinds(1), SCALAR_LEAVES.values(), is_right=is_right)


@pytest.mark.parametrize("is_right", [True, False])
def test_scalar_decides_every_function(referee: Lockstep, is_right: bool) -> None:  # noqa: FBT001
    """For every function that the chain knows, a right result stands and a wrong one falls."""
    task, indices = functions()
    targets = [(index, place % 4) for place, index in enumerate(indices)]
    dispute_each(referee, task, targets, is_right=is_right)


@pytest.mark.parametrize("length", [1, 2, 64, 65, 200])
def test_folds_of_any_length_are_decided(referee: Lockstep, length: int) -> None:
    """A fold is narrowed to one step, however long it is, from either side."""
    task = folds(length)
    honest, cheat = Claim(task), cheating(task, 0, 1)
    with referee.branch():
        assert play(referee, task, cheat, honest) == (1, Ending.SCALAR)
    assert play(referee, task, honest, cheat) == (0, Ending.SCALAR)


def test_wrong_accumulator_with_right_result_loses(referee: Lockstep) -> None:
    """Who posts an accumulator that does not follow from the one before it has lost."""
    task = folds(70, Kind.REDUCE)
    game = Game(referee, task, [Claim(task), cheating(task, 0, 1)]).assemble().start()
    game.play_to(Phase.FOLD)
    move = game.next_move()
    values = bytearray(move.args[2])
    values[40] ^= 1
    game.referee.call(move.name, move.sender, *move.args[:2], bytes(values))
    game.shown = bytes(values)
    game.claims[1] = Claim(task)
    assert game.finish() == (1, Ending.SCALAR)


@pytest.mark.parametrize(("steps", "every"), [(1, 1), (5, 2), (20, 7)])
def test_sparse_checkpoints_are_searched_inside(referee: Lockstep, steps: int, every: int) -> None:
    """A wrong step is found wherever it lies in the history, the last short interval included."""
    task, honest = kinds(steps, every), honest_kinds(steps, every)
    for step in sorted({0, steps // 2, steps - 1}):
        with referee.branch():
            assert play(referee, task, cheating(task, step, 5), honest) == (1, Ending.SCALAR)


def test_first_state_of_an_interval_is_agreed(referee: Lockstep) -> None:
    """The challenger cannot dispute the checkpoint with which the interval begins."""
    task = kinds(4, 2)
    game = Game(referee, task, [cheating(task, 1, 6), honest_kinds(4, 2)]).assemble().start()
    game.play_to(Phase.INTERVAL, opened=True)
    proof = Tree(Tag.INTERVAL_NODE, game.shown).proof(0)
    args = (game.job_id, referee.position(game.job_id), 0, game.shown[0], proof)
    assert referee.refused("pick", game.members[1], *args) == Reason.OUT_OF_RANGE


def test_start_decides(referee: Lockstep) -> None:
    """A history that does not begin with the job's start loses, one that does wins."""
    task, honest = kinds(), honest_kinds()
    cheat = Claim(task, fake=lambda step, s: (flip(s[0]), *s[1:]) if step == -1 else s)
    with referee.branch():
        assert play(referee, task, cheat, honest) == (1, Ending.START)
    assert play(referee, task, honest, cheat) == (0, Ending.START)


def test_sink_decides(referee: Lockstep) -> None:
    """A state that is not made of the step's outputs loses, one that is wins."""
    task, honest = kinds(), honest_kinds()

    def fake(step: int, state: Tensors) -> Tensors:
        return (state[0], flip(state[1], 33), state[2]) if step == 0 else state

    cheat = Claim(task, fake=fake)
    with referee.branch():
        assert play(referee, task, cheat, honest) == (1, Ending.SINK)
    assert play(referee, task, honest, cheat) == (0, Ending.SINK)


def test_empty_tensor_decides(referee: Lockstep) -> None:
    """A tensor without elements has one root, and no other."""
    task, honest = kinds(), honest_kinds()

    def cheat(step: int, index: int, array: Array) -> Array:
        return np.zeros((3, 0), np.float32) if (step, index) == (0, 14) else array

    wrong = cheating(task, 0, 20)
    liar = Claim(task, cheat, wrong.fake)
    with referee.branch():
        assert play(referee, task, liar, honest) == (1, Ending.EMPTY)
    assert play(referee, task, honest, liar) == (0, Ending.EMPTY)


@pytest.mark.parametrize("upheld", [True, False])
def test_verifier_rules_on_unknown_functions(referee: Lockstep, upheld: bool) -> None:  # noqa: FBT001
    """A leaf whose function the chain does not know is referred, and the ruling decides."""
    task = kinds()
    verifier = referee.chain.accounts[VERIFIER]
    claims = [honest_kinds(), cheating(task, 0, 17, 4)]
    game = Game(referee, task, claims, {"verifier": verifier}).assemble().start()
    game.play_to(Phase.VERIFIER)
    position = referee.position(game.job_id)
    game.events = referee.call("rule", verifier, game.job_id, position, upheld)
    assert game.events[-1].args[2:] == ((0, 1, 6) if upheld else (1, 0, 6))


@pytest.mark.parametrize("upheld", [True, False])
def test_verifier_rules_where_leaves_are_operators(referee: Lockstep, upheld: bool) -> None:  # noqa: FBT001
    """In a job whose leaves are whole operators the match stops at the operator."""
    task = kinds()
    verifier = referee.chain.accounts[VERIFIER]
    terms = {"verifier": verifier, "leaf_mode": LeafMode.OPERATOR}
    game = Game(referee, task, [honest_kinds(), cheating(task, 1, 5)], terms).assemble().start()
    game.play_to(Phase.VERIFIER)
    position = referee.position(game.job_id)
    (event,) = referee.call("rule", verifier, game.job_id, position, upheld)
    assert event.args[2:] == ((0, 1, 6) if upheld else (1, 0, 6))


def test_state_is_disputed_where_leaves_are_operators(referee: Lockstep) -> None:
    """The state after the step is nobody's operator: the contract decides on it in every job."""
    task = kinds()
    cheat = Claim(task, fake=lambda step, s: (flip(s[0]), *s[1:]) if step == 1 else s)
    terms = {"leaf_mode": LeafMode.OPERATOR}
    game = Game(referee, task, [cheat, honest_kinds()], terms).assemble().start()
    assert game.finish() == (1, Ending.SINK)


@pytest.mark.parametrize("phase", [p for p in Phase if p not in (Phase.NONE, Phase.VERIFIER)])
def test_silence_loses_in_every_phase(referee: Lockstep, phase: Phase) -> None:
    """Whoever lets its clock run out loses, whatever the phase, in the first block after it."""
    game = _come_to(referee, phase)
    for opened in (False, True):
        if (game.match.phase, game.match.opened) != (phase, opened):
            continue
        with referee.branch():
            _let_time_run_out(game)
        if not opened and phase not in (Phase.LEAF, Phase.SINK) and phase in _OPENED:
            game.play_to(phase, opened=True)


_OPENED = frozenset(
    {Phase.HISTORY, Phase.INTERVAL, Phase.TRACE, Phase.TENSOR, Phase.CHUNK, Phase.FOLD, Phase.STATE}
)


def _come_to(referee: Lockstep, phase: Phase) -> Game:
    task, honest = kinds(4, 2), honest_kinds(4, 2)
    if phase in (Phase.ENTER_STATE, Phase.STATE, Phase.SINK):
        cheat = Claim(task, fake=lambda step, s: (flip(s[0]), *s[1:]) if step == 1 else s)
    else:
        cheat = cheating(task, 1, 6)
    game = Game(referee, task, [cheat, honest], {"clock_blocks": 20}).assemble().start()
    return game.play_to(phase)


def _let_time_run_out(game: Game) -> None:
    challenger_moves = game.match.opened or game.match.phase in (Phase.LEAF, Phase.SINK)
    match = game.match
    clock = match.challenger_clock if challenger_moves else match.defender_clock
    move, last = game.next_move(), match.since + clock
    position = game.referee.position(game.job_id)
    game.referee.mine_to(last)
    anyone = game.referee.chain.accounts[9]
    assert "running" in game.referee.refused("timeout", anyone, game.job_id, position)
    assert "expired" in game.referee.refused(move.name, move.sender, *move.args)
    (event,) = game.referee.call("timeout", anyone, game.job_id, position)
    assert event.args[2] == (match.defender if challenger_moves else match.challenger)
    assert event.args[4] == Ending.CLOCK


def test_verifier_that_does_not_rule_voids_the_job(referee: Lockstep) -> None:
    """Bonds and reward go back when the verifier lets its time run out; hidden bonds burn."""
    task = kinds()
    honest = honest_kinds()
    terms = {"verifier": referee.chain.accounts[VERIFIER], "leaf_mode": LeafMode.OPERATOR}
    game = Game(referee, task, [honest, cheating(task, 1, 5), honest], terms)
    for seat in range(3):
        game.commit(seat)
    referee.mine_to(game.job.commit_deadline + 1)
    game.reveal(0)
    game.reveal(1)
    referee.mine_to(game.job.reveal_deadline + 1)
    game.start().play_to(Phase.VERIFIER)
    referee.mine_to(game.match.since + game.job.terms.clock_blocks + 1)
    position = referee.position(game.job_id)
    referee.call("timeout", game.client, game.job_id, position)
    assert game.job.is_settled
    assert referee.store.burned_wei == game.job.terms.bond_wei
    for account in (*game.members[:2], game.client):
        referee.call("withdraw", account)
    assert referee.store.balance_wei == 0


def test_knockout_leaves_one_claim(referee: Lockstep) -> None:
    """Of five members with four claims the honest two win, whatever the seats."""
    task, honest = kinds(4, 2), honest_kinds(4, 2)
    sink = Claim(task, fake=lambda step, s: (flip(s[0]), *s[1:]) if step == 2 else s)
    claims = [cheating(task, 3, 6), honest, sink, honest, cheating(task, 1, 12)]
    game = Game(referee, task, claims).assemble()
    endings = [game.start().finish() for _ in range(3)]
    assert endings == [(1, Ending.SCALAR), (1, Ending.SINK), (1, Ending.SCALAR)]
    (settled,) = referee.call("settle", game.client, game.job_id)
    assert settled.args[2] == 2
    for account in (game.members[1], game.members[3], game.client):
        referee.call("withdraw", account)
    assert referee.store.balance_wei == 0
    referee.compare_all()


def test_types_of_all_widths_are_in_the_tasks() -> None:
    """The tasks of these games cover every element type."""
    nodes = (*kinds().program.nodes, *functions()[0].program.nodes)
    assert {node.dtype for node in nodes} == set(DType)
