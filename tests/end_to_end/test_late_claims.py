"""Claims and members that join late, and states that no operator computed."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pytest

from moot.contracts.model.words import hash_job
from moot.contracts.reasons import Ending, Phase, Standing
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree, hash_root
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from tests.end_to_end.fixtures import (
    Case,
    check_money,
    draw_cheat,
    make_game,
    open_model_court,
)


def play_until(game: Game, call: str) -> None:
    """Play a game up to and including the first call of a name."""
    assert any(played.call == call for played in game.play())


def join(game: Game, player: Player) -> Game:
    """Let a player join late, and return the game with it."""
    top, bond = player.run.history.top, game.stakes.bond_wei
    args = (game.job_id, top, hash_job(game.referee.job(game.job_id)))
    game.referee.transact("join", *args, sender=player.address, value_wei=bond)
    game.players = [*game.players, player]
    return game


def test_an_honest_claim_may_come_late(case: Case, liars: dict[str, Run]) -> None:
    """Who joins with a claim of its own after the revelation wins, and has the prize."""
    court = open_model_court()
    game = make_game(court, case, {"lazy-1": liars["lazy-1"]})
    play_until(game, "reveal")
    game.referee.mine(game.stakes.reveal_blocks)
    game = join(game, Player("honest-1", court.accounts[9], case.honest))
    assert list(game.play())
    assert game.get_winners() == ["honest-1"]
    gained = game.referee.balance(court.accounts[9]) - 10**21
    assert gained == game.terms.prize_wei
    check_money(game)


def test_a_claim_whose_defender_fails_is_joined_and_wins(case: Case, liars: dict[str, Run]) -> None:
    """A lost match costs a claim nothing while somebody may still join it and play on."""
    court = open_model_court()
    flag = draw_cheat(case, "false-flag", seed=3)
    players = {"false-flag-1": flag, "lazy-1": liars["lazy-1"]}
    stakes = Stakes(window_blocks=1_000)
    game = make_game(court, case, players, stakes=stakes)
    play_until(game, "timeout")
    assert game.referee.member(game.job_id, game.players[0].address).standing is Standing.DEFEATED
    game = join(game, Player("honest-1", court.accounts[9], case.honest))
    assert list(game.play())
    assert game.get_winners() == ["honest-1"]
    late = game.referee.member(game.job_id, court.accounts[9])
    assert late.standing is Standing.PAID
    gained = game.referee.balance(court.accounts[9]) - 10**21
    assert gained == game.terms.prize_wei
    job = game.referee.job(game.job_id)
    assert job.forfeits == 1
    check_money(game)


class Forger(Run):
    """A run that claims a last state with a tensor that no operator computed."""

    @cached_property
    def _forged(self) -> Tree:
        tree = super().state_tree(self.task.steps)
        leaves = [tree.node(0, slot) for slot in range(tree.count)]
        return Tree(Tag.STATE_NODE, [*leaves[:-1], bytes(31) + b"\x01"])

    @property
    def _root(self) -> Digest:
        return hash_root(Tag.STATE_ROOT, self._forged.count, self._forged.top)

    def _forge(self, tree: Tree) -> Tree:
        leaves = [tree.node(0, index) for index in range(tree.count - 1)]
        return Tree(tree.tag, [*leaves, self._root])

    @property
    def roots(self) -> Sequence[Digest]:
        """The state roots of all checkpoints, the last one forged."""
        return [*super().roots[:-1], self._root]

    def interval(self, first: int) -> Tree:
        """Return an interval's tree; the last one ends in the forged state."""
        tree = super().interval(first)
        return self._forge(tree) if first + tree.count == self.task.steps else tree

    def trace(self, step: int) -> Tree:
        """Return a step's trace; the last one ends in the forged state."""
        tree = super().trace(step)
        return self._forge(tree) if step + 1 == self.task.steps else tree

    def state_tree(self, step: int) -> Tree:
        """Return the tree over a state's tensors."""
        return self._forged if step == self.task.steps else super().state_tree(step)


def make_forger(case: Case, path: Path) -> Run:
    """Return a run whose last state is forged."""
    forger = Forger(case.task, Behaviour(), Store(path))
    forger.compute()
    return forger


@pytest.mark.parametrize("order", [1, -1])
def test_a_state_that_no_operator_made_is_found(case: Case, tmp_path: Path, order: int) -> None:
    """When all outputs agree and the state does not, the sink of the first slot decides."""
    players = {"forger-1": make_forger(case, tmp_path), "honest-1": case.honest}
    game = make_game(open_model_court(), case, dict(list(players.items())[::order]))
    assert list(game.play())
    assert game.get_winners() == ["honest-1"]
    (ended,) = game.ended
    assert ended.ending is Ending.SINK
    assert ended.board.position.phase is Phase.SINK
    assert ended.board.position.index == len(case.task.program.state) - 1
