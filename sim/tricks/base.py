"""A trick: a party of one provider's accounts, which sees what others call and acts at any time.

It knows what the chain shows, what it has itself run, and the calls of others that wait for a
block. Whatever it does is a call of the referee, with its own money, and may be refused.
"""

from collections.abc import Iterator
from typing import ClassVar

from moot.contracts.model.types import Pair
from moot.contracts.reasons import Standing
from moot.offchain.disputes.play.actors import Player, View
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call


class Trick(Party):
    """Plays some accounts like honest ones do, each with its own run; tricks override what differs.

    The first of its members is the account by which the provider is known.
    """

    held_blocks = 0
    """For how many blocks it has kept calls of others out of the chain."""

    player: ClassVar[type[Player]] = Player
    """What the accounts do by themselves."""

    runs: ClassVar[tuple[str, ...]] = ("wrong-output",)
    """Of a user's trick, the behaviours of its accounts; the table says those of the others."""

    copies: ClassVar[int] = 1
    """Likewise: how many accounts have each of these behaviours."""

    is_client: ClassVar[bool] = False
    """Likewise: whether the first account opens the job, and pays for it."""

    def dispute(self, view: View) -> Iterator[Call]:
        """Make the moves that the accounts have in their matches."""
        for pair in list(view.tournament.boards):
            board = view.tournament.boards.get(pair)
            if board is not None:
                yield from self.move(view, board)

    def move(self, view: View, board: Board) -> Iterator[Call]:
        """Make the move that an account has in a match, if any, while there is time."""
        if view.block > board.position.deadline:
            return
        for _, member in self.list_sides(board.pair):
            call = member.move(view, board)
            if call is not None:
                yield call
                return

    def list_sides(self, pair: Pair) -> Iterator[tuple[int, Player]]:
        """Yield the sides of a match that the trick's accounts play, each with its account."""
        for side, address in enumerate((pair.first, pair.second)):
            yield from ((side, member) for member in self.members if member.address == address)

    def list_outsiders(self, view: View) -> Iterator[Player]:
        """Yield the accounts that have not joined."""
        for member in self.members:
            if view.get_standing(member.address) is Standing.NONE:
                yield member
