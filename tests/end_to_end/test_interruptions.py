"""Players that restart with nothing but the chain and their stores, and chains that fork."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from moot.contracts.deployment import deploy_referee
from moot.contracts.model.checks import is_free
from moot.contracts.model.types import Address
from moot.contracts.model.words import hash_facts, hash_position
from moot.contracts.reasons import Ending, Revert, Status
from moot.offchain.chain import connect
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import LEFT, Game
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.port import Call, ModelReferee
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from tests.end_to_end.fixtures import (
    COURTS,
    LONG,
    Case,
    Court,
    make_game,
    open_model_court,
)
from tests.quick import every, only
from tests.sim_helpers import transact_each


def check_reading(game: Game) -> None:
    """Compare what the events say with what the referee remembers."""
    referee, job = game.referee, game.referee.job(game.job_id)
    tournament = Tournament(game.job_id, game.terms)
    tournament.read(referee.events(game.job_id))
    for pair, board in tournament.boards.items():
        assert referee.match(pair) == hash_position(pair, board.position)
        assert hash_facts(board.facts) == board.position.facts
    claims = tournament.get_claims()
    assert len(claims) == job.claims or job.status is not Status.OPEN
    for top, members in claims.items():
        claim = referee.claim(game.job_id, top)
        assert claim is not None
        assert claim.contenders == len(members)
        meeting = tournament.meetings.get(top)
        assert (claim.meeting == 0) == (meeting is None)
        assert claim.window_end == (meeting.window_end if meeting else 0)
        rival = referee.claim(game.job_id, meeting.rival) if meeting else None
        for block in (claim.window_end, claim.window_end + 1):
            assert tournament.is_free(top, block) == is_free(claim, rival, block)
    for player in game.players:
        standing = referee.member(game.job_id, player.address).standing
        assert (standing in LEFT) == (player.address in tournament.contenders)


@pytest.mark.parametrize("court", only({"chain"}, COURTS))
def test_the_events_say_all_that_players_need(
    case: Case, liars: dict[str, Run], court: str
) -> None:
    """After every call, positions, facts, members and meetings follow from the log alone."""
    names = ["lazy-1", "silent-1", "wrong-output-1"]
    players = {"honest-1": case.honest, "honest-2": case.honest}
    players |= {name: liars[name] for name in names}
    game = make_game(COURTS[court](), case, players, stakes=LONG)
    for _ in game.play():
        check_reading(game)


def restart(game: Game, stores: Sequence[Path]) -> Game:
    """Return a game with nothing but the job's number, whose players have only their stores."""
    players = []
    for player, path in zip(game.players, stores, strict=True):
        run = Run(game.task, player.run.behaviour, Store(path))
        run.compute()
        players.append(Player(player.name, player.address, run))
    return Game(
        referee=game.referee,
        task=game.task,
        client=game.client,
        players=players,
        stakes=game.stakes,
        seed=game.seed,
        job_id=game.job_id,
    )


@pytest.mark.parametrize("court", COURTS)
@pytest.mark.parametrize(
    "cheat", only({"wrong-output"}, ["wrong-output", "poisoned-batch", "silent"])
)
def test_players_that_are_killed_after_every_turn_go_on(
    case: Case, liars: dict[str, Run], cheat: str, court: str, tmp_path: Path
) -> None:
    """With all processes made anew after every turn the same calls lead to the same verdict."""
    behaviours = {"honest-1": Behaviour(), f"{cheat}-1": liars[f"{cheat}-1"].behaviour}
    stores = [tmp_path / name for name in behaviours]
    runs = {}
    for (name, behaviour), path in zip(behaviours.items(), stores, strict=True):
        runs[name] = Run(case.task, behaviour, Store(path))
        runs[name].compute()
    whole = [played.call for played in make_game(COURTS[court](), case, runs).play()]
    game = make_game(COURTS[court](), case, runs)
    calls = []
    while (turn := game.take_turn()) is not None or game.wait():
        calls += [played.call for played in turn or ()]
        game = restart(game, stores)
    assert calls == whole
    assert game.get_winners() == ["honest-1"]


@pytest.mark.parametrize("depth", every(6, [1, 3, 8]))
def test_a_reorganised_chain_comes_to_the_same_verdict(
    case: Case, liars: dict[str, Run], depth: int
) -> None:
    """Blocks that are lost with the calls in them are made up for, and the honest claim wins."""
    chain = connect()
    referee = ChainReferee(chain, deploy_referee(chain, chain.accounts[0]), first_block=0)
    players = {"honest-1": case.honest, "wrong-output-1": liars["wrong-output-1"]}
    game = make_game(Court(referee, chain.accounts), case, players)
    marks: list[tuple[int, object]] = []
    for number, _ in enumerate(game.play()):
        marks.append((chain.block_number(), chain.snapshot()))
        recent = [mark for mark in marks if mark[0] >= marks[-1][0] - depth]
        if number % 5 == 4:
            chain.revert(recent[0][1])
            marks.clear()
    assert game.get_winners() == ["honest-1"]
    assert [ended.ending for ended in game.ended] == [Ending.SCALAR]


class Copied:
    """A referee with a front runner, who makes every call first from an account of its own."""

    def __init__(self, referee: ModelReferee, copier: Address) -> None:
        self._referee = referee
        self._copier = copier
        self.copied: set[str] = set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._referee, name)

    def transact(self, name: str, *args: object, sender: Address, value_wei: int = 0) -> object:
        """Let the copier make a call, and then the one that it has copied it from."""
        with suppress(Revert):
            self._referee.transact(name, *args, sender=self._copier, value_wei=value_wei)
            self.copied.add(name)
        return self._referee.transact(name, *args, sender=sender, value_wei=value_wei)

    def transact_all(self, calls: Sequence[Call]) -> object:
        """Make calls one after the other, each of them copied."""
        return transact_each(self, calls)  # type: ignore[arg-type] # by __getattr__


@pytest.mark.parametrize("cheat", ["wrong-output", "garbage-root"])
def test_copied_calls_change_nothing(case: Case, liars: dict[str, Run], cheat: str) -> None:
    """Whoever sends every call first, from elsewhere, changes neither verdict nor payout."""
    gains = []
    for is_copied in (False, True):
        court = open_model_court()
        referee = court.referee
        assert isinstance(referee, ModelReferee)
        copied = Copied(referee, court.accounts[-1])
        players = {"honest-1": case.honest, f"{cheat}-1": liars[f"{cheat}-1"]}
        game = make_game(court, case, players)
        if is_copied:
            game.referee = copied  # type: ignore[assignment] # by __getattr__
        assert list(game.play())
        assert game.get_winners() == ["honest-1"]
        gains.append(referee.balance(game.players[0].address))
        assert not is_copied or {"commit", "descend", "settle"} <= copied.copied
    assert gains[0] == gains[1]
