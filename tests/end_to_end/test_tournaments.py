"""Jobs with many providers: the winners, the payments, and the blocks that they take."""

from itertools import combinations

import pytest

from moot.contracts.model.types import Position
from moot.contracts.reasons import Ending, Outcome
from moot.offchain.disputes.play.accounts import calculate_fees, count_burned
from moot.offchain.providers.run import Run
from tests.end_to_end.fixtures import (
    COURTS,
    LIARS,
    LONG,
    Case,
    check_money,
    draw_cheat,
    make_game,
    open_model_court,
)
from tests.quick import only


@pytest.mark.parametrize("court", only({"model"}, COURTS))
def test_one_honest_claim_beats_all_others(case: Case, liars: dict[str, Run], court: str) -> None:
    """Against every cheat at once the honest claim is left, and every liar has lost its bond."""
    players = {"honest-1": case.honest} | liars | {"honest-2": case.honest}
    game = make_game(COURTS[court](), case, players, stakes=LONG)
    accounts = [game.client, game.verifier, *(player.address for player in game.players)]
    before = sum(game.referee.balance(account) for account in accounts)
    played = list(game.play())
    assert game.get_winners() == ["honest-1", "honest-2"]
    assert game.referee.job(game.job_id).defeated == len(liars)
    spent = before - sum(game.referee.balance(account) for account in accounts)
    assert spent == count_burned(game) + sum(calculate_fees(played).values())


def test_claims_are_knocked_out_in_logarithmic_time(case: Case, liars: dict[str, Run]) -> None:
    """The claims of a job take ceil(log2 n) rounds of a window and a match, and no more."""
    players = {"honest-1": case.honest} | liars
    game = make_game(open_model_court(), case, players, stakes=LONG)
    moves = settled_block = 0
    for played in game.play():
        for event in played.events:
            if event.name == "Moved":
                assert isinstance(event.args[3], Position)
                moves = max(moves, event.args[3].moves)
            elif event.name == "Settled":
                settled_block = game.referee.block_number()
    job = game.referee.job(game.job_id)
    rounds = (len(players) - 1).bit_length()
    match_blocks = 2 * LONG.clock_blocks + LONG.increment_blocks * moves
    assert settled_block <= job.reveal_deadline + rounds * (LONG.window_blocks + match_blocks)
    assert job.meetings == len(players) - 1


@pytest.mark.parametrize("pair", list(combinations(LIARS, 2)), ids="-".join)
def test_two_liars_leave_one_claim_at_most(
    case: Case, liars: dict[str, Run], pair: tuple[str, str]
) -> None:
    """Among liars a match ends all the same, in favour of whoever is right about the scalar."""
    players = {f"{name}-1": liars[f"{name}-1"] for name in pair}
    game = make_game(open_model_court(), case, players)
    assert list(game.play())
    assert len(game.get_winners()) == 1
    for ended in game.ended:
        if ended.ending is Ending.SCALAR:
            (event,) = (e for e in game.referee.events(game.job_id) if e.name == "MatchEnded")
            assert ended.outcome is not Outcome.NEITHER
            assert event.args[-1] == ended.board.facts.bits[ended.outcome]
    check_money(game)


def test_a_swarm_behind_one_claim_is_fought_in_parallel(case: Case) -> None:
    """Members of one claim are all beaten within one meeting, each match paid by its bond."""
    liar = draw_cheat(case, "wrong-output", seed=11)
    players = {f"wrong-output-{i}": liar for i in range(8)} | {"honest-1": case.honest}
    game = make_game(open_model_court(), case, players, stakes=LONG)
    assert list(game.play())
    job = game.referee.job(game.job_id)
    assert (job.meetings, job.defeated, job.forfeits) == (1, 8, 0)
    assert game.get_winners() == ["honest-1"]
    gained = game.referee.balance(game.players[-1].address) - 10**21
    assert gained == 8 * job.terms.prize_wei + job.reward_wei
    check_money(game)
