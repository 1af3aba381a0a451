"""A trick that keeps the calls of others out of the chain."""

from moot.contracts.model.types import Pair, Position
from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class Censor(Trick):
    """Lies, and fills the blocks when its rivals want to move, for half a clock in all."""

    def hold(self, view: View, pending: Call) -> int:
        """Keep out a rival's move while that is paid for."""
        match pending.args[:2]:
            case Pair() as pair, Position() as position if any(self.list_sides(pair)):
                left = view.job.terms.clock_blocks // 2 - self.held_blocks
                blocks = max(0, min(left, position.deadline - view.block))
                self.held_blocks += blocks
                return blocks
        return 0
