from contracts.reasons import Phase, Reason
from tests.lockstep.claims import Claim, cheating, flip
from tests.lockstep.game import Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.mutations import mutate_move, other_moves
from tests.lockstep.tasks import honest_kinds, kinds

PATIENT = {"clock_blocks": 10_000}


def probe(game: Game) -> set[str]:
    """Try all that is almost right at every step of a match; return the reasons for refusals."""
    reasons: set[str | None] = set()
    while game.is_playing:
        move = game.next_move()
        for wrong in (*mutate_move(game, move), *other_moves(game)):
            reasons.add(game.referee.attempt(wrong.name, wrong.sender, *wrong.args))
        value = game.referee.attempt(move.name, move.sender, *move.args, value_wei=1)
        assert value == Reason.NO_REASON
        game.make(move)
        stale = game.referee.attempt(move.name, move.sender, *move.args)
        assert stale == (Reason.STALE if game.is_playing else Reason.WRONG_PHASE)
    return {reason for reason in reasons if reason is not None}


def test_almost_right_moves_to_a_scalar(referee: Lockstep) -> None:
    """From the history down to one fused multiply-add both agree on every wrong call."""
    game = Game(referee, kinds(4, 2), [cheating(kinds(4, 2), 2, 6), honest_kinds(4, 2)], PATIENT)
    reasons = probe(game.assemble().start())
    assert reasons >= {
        Reason.BAD_CHUNK,
        Reason.BAD_OPENING,
        Reason.BAD_OPERAND,
        Reason.BAD_PROOF,
        Reason.BAD_VALUES,
        Reason.CLOCK_RUNNING,
        Reason.FUNCTION_KNOWN,
        Reason.NO_SUCH_JOB,
        Reason.NO_REASON,
        Reason.NOT_YOURS,
        Reason.OUT_OF_RANGE,
        Reason.STALE,
        Reason.WRONG_PHASE,
    }


def test_almost_right_moves_to_a_sink(referee: Lockstep) -> None:
    """From the history down to one slot of the state both agree on every wrong call."""
    cheat = Claim(kinds(), fake=lambda step, s: (*s[:2], flip(s[2])) if step == 0 else s)
    game = Game(referee, kinds(), [cheat, honest_kinds()], PATIENT).assemble().start()
    assert probe(game.play_to(Phase.ENTER_STATE)) >= {Reason.BAD_OPENING, Reason.BAD_PROOF}


def test_almost_right_moves_to_a_leaf_with_indices(referee: Lockstep) -> None:
    """A leaf that reads indices refuses each wrong proof of each of them."""
    for index, place in ((9, 4), (10, 2), (7, 1)):
        game = Game(referee, kinds(), [cheating(kinds(), 0, index, place), honest_kinds()], PATIENT)
        assert Reason.BAD_OPERAND in probe(game.assemble().start().play_to(Phase.LEAF))


def test_almost_right_moves_to_the_verifier(referee: Lockstep) -> None:
    """Where the chain does not know the function, only a referral is accepted."""
    claims = [cheating(kinds(), 0, 17), honest_kinds()]
    terms = PATIENT | {"verifier": referee.chain.accounts[8]}
    game = Game(referee, kinds(), claims, terms).assemble().start().play_to(Phase.LEAF)
    move = game.next_move()
    assert move.name == "refer"
    for wrong in (*mutate_move(game, move), *other_moves(game)):
        game.referee.attempt(wrong.name, wrong.sender, *wrong.args)
    encoding = move.args[2]
    leaf = game.referee.attempt("leaf", move.sender, *move.args[:2], encoding, ())
    assert leaf == Reason.UNKNOWN_FUNCTION
    game.make(move)
    for wrong in other_moves(game):
        game.referee.attempt(wrong.name, wrong.sender, *wrong.args)
