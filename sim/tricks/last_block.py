"""A trick that takes all the time of its clock."""

from collections.abc import Iterator

from offchain.disputes.actors import View
from offchain.disputes.board import Board
from offchain.disputes.referee import Call
from sim.scheme import Scheme


class LastBlock(Scheme):
    """Lies, and makes every move in the last block of its clock."""

    def move(self, view: View, board: Board) -> Iterator[Call]:
        """Wait until the clock's last block."""
        if view.block >= board.position.deadline:
            yield from super().move(view, board)
