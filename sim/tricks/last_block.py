"""A trick that takes all the time of its clock."""

from collections.abc import Iterator

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class LastBlock(Trick):
    """Lies, and makes every move in the last block of its clock."""

    def move(self, view: View, board: Board) -> Iterator[Call]:
        """Wait until the clock's last block."""
        if view.block >= board.position.deadline:
            yield from super().move(view, board)
