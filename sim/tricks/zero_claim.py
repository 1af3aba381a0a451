"""A trick with a claim that nobody can open."""

from collections.abc import Iterator

from moot.contracts.model.types import ZERO
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.actors import Player, View
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class _ZeroPlayer(Player):
    """A member that claims a history whose top is zero."""

    @property
    def claim(self) -> Digest:
        """Zero."""
        return ZERO


class ZeroClaim(Trick):
    """Claims a history whose top is zero, which nobody can open, and never moves."""

    player = _ZeroPlayer

    def move(self, view: View, board: Board) -> Iterator[Call]:
        """Make no move."""
        del view, board
        yield from ()
