"""The arena: in which blocks calls are made, who sees them before, and who comes late."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from moot.contracts.model.types import Address
from moot.contracts.reasons import Standing
from moot.offchain.disputes.play.actors import Player, View
from moot.offchain.disputes.play.arena import Arena, ChainView
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.crowds import count_calls
from moot.offchain.disputes.referee.port import Call, ModelReferee, Outcome
from moot.sim.gas.play import Latecomer
from moot.sim.synthetic.products import Lie, Size, seat
from tests.sim_helpers import open_referee

SIZE = Size(checkpoints=4, operators=8, rows=4, columns=4, terms=4)
LIE = Lie(step=1, operator=4, element=5, term=2)
CALLS = count_calls(30_000_000)
MEMBERS = CALLS + CALLS // 2
"""More than can send at once in a block of the model."""


def make_accounts(count: int) -> list[Address]:
    """Return so many addresses."""
    return [Address(f"0x{number:040x}") for number in range(1, count + 1)]


def open_game(liars: int) -> tuple[Game, ModelReferee]:
    """Return a game of one honest member and so many liars, with the model that it is played on."""
    accounts = make_accounts(liars + 3)
    referee = open_referee(accounts)
    return seat(referee, SIZE, accounts[:-1], [LIE] * liars), referee


@pytest.mark.parametrize("joins_at_once", [False, True])
def test_a_party_sends_what_a_block_has_room_for(joins_at_once: bool) -> None:  # noqa: FBT001 - a test's case
    """A party joins in as many turns as it needs, or at once if it is one that may."""
    game, referee = open_game(MEMBERS)
    game.take_turn()
    view = ChainView(referee, Tournament(game.job_id, game.terms))
    arena = Arena(view, [Party(game.players, joins_at_once=joins_at_once)])
    turns = [arena.take_turn(), arena.take_turn(), arena.take_turn()]
    sizes = [len(turn) for turn in turns if turn is not None]
    assert sizes == [MEMBERS + 1] if joins_at_once else [CALLS, MEMBERS + 1 - CALLS]
    assert turns[2] is None


@dataclass
class Onlooker(Party):
    """A party that notes what it sees, copies reveals, and holds each first move up."""

    seen: list[tuple[str, int]] = field(default_factory=list)

    def act(self, view: View) -> Iterator[Call]:
        """Make no call of its own."""
        del view
        yield from ()

    def hold(self, view: View, pending: Call) -> int:
        """Note a call with the block that it would be in."""
        self.seen.append((pending.name, view.block))
        return 3 if pending.name == "start_match" else 0

    def precede(self, view: View, pending: Call) -> Iterator[Call]:
        """Copy a commitment, and a claim without one, which is refused."""
        assert view.block == self.seen[-1][1] + 3 * (pending.name == "start_match")
        if pending.name in {"commit", "reveal"}:
            copied = self.members[0].call
            yield copied(pending.name, *pending.args, value_wei=pending.value_wei)


def test_watchers_see_what_waits_before_it_is_made() -> None:
    """Each call waits as long as it is held, and comes after the calls that overtake it."""
    game, referee = open_game(1)
    copier = Player("copier-1", make_accounts(4)[3], game.players[0].run)
    onlooker = Onlooker([copier])
    game.watchers = [onlooker]
    played = list(game.play())
    own = [it.call for it in played if it.player != "copier-1"]
    assert [name for name, _ in onlooker.seen] == own[1:]
    copies = [number for number, it in enumerate(played) if it.player == "copier-1"]
    assert [played[number].call for number in copies] == ["commit"]
    assert played[copies[0] + 1].call == "commit"
    (start,) = [block for name, block in onlooker.seen if name == "start_match"]
    after = onlooker.seen[[name for name, _ in onlooker.seen].index("start_match") + 1]
    assert after[1] == start + 3 + 1
    assert referee.member(game.job_id, copier.address).standing is Standing.COMMITTED
    assert game.get_winners() == ["honest-1"]


def test_who_joins_late_joins_alone() -> None:
    """A late member is in before anything else is done, and is paid like the others."""
    game, referee = open_game(1)
    honest = game.players[0]
    late = Latecomer("honest-2", make_accounts(4)[3], honest.run)
    game = replace(game, players=[*game.players, late])
    while turn := game.take_turn() or game.wait() or None:
        calls = [] if turn is True else [it.call for it in turn]
        assert "join" not in calls or calls == ["join"]
    assert game.get_winners() == ["honest-1", "honest-2"]
    assert referee.member(game.job_id, late.address).standing is Standing.PAID


def test_refused_calls_of_parties_are_returned() -> None:
    """Whoever plays an arena is told of each refusal, and decides what it means."""
    game, referee = open_game(1)
    game.take_turn()
    view = ChainView(referee, Tournament(game.job_id, game.terms))
    twins = [Party([game.players[0]]), Party([game.players[0]])]
    turn = Arena(view, twins).take_turn()
    assert turn is not None
    assert [isinstance(made.answer, Outcome) for made in turn] == [True, False]
