"""A trick that tries what nobody may do."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from moot.contracts.reasons import Standing
from moot.offchain.disputes.play.actors import Player, View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


@dataclass
class Grabber(Trick):
    """Lies and tells the truth, and tries every call that would pay it if the referee let it.

    To be paid too early and twice, to settle for itself, to rule, to call a rival late, to join
    and to show its claim again, and to repeat its last move; each once in each time of the job.
    """

    _tried: set[object] = field(default_factory=set)
    _last: Call | None = None

    def act(self, view: View) -> Iterator[Call]:
        """Do as the others do, and grab."""
        for call in super().act(view):
            self._last = call
            yield call
        for call in self._list_grabs(view):
            stage = view.job.status, view.block > view.job.reveal_deadline
            attempt = (call.name, call.sender, stage)
            if attempt not in self._tried:
                self._tried.add(attempt)
                yield call

    def _list_grabs(self, view: View) -> Iterator[Call]:
        if self._last is not None:
            yield self._last
        for member in self.members:
            if view.get_standing(member.address) is not Standing.NONE:
                yield from self._repeat(view, member)
        for board in list(view.tournament.boards.values()):
            for side, member in self.list_sides(board.pair):
                yield member.call("rule", board.pair, board.position, side)
                if board.position.mover != side:
                    yield member.call("timeout", board.pair, board.position)

    def _repeat(self, view: View, member: Player) -> Iterator[Call]:
        """Yield calls that a member may make once only, or not yet."""
        job_id, bond_wei, top = view.tournament.job_id, view.job.terms.bond_wei, member.claim
        yield member.call("commit", job_id, top, view.named, value_wei=bond_wei)
        yield member.call("reveal", job_id, top, member.salt)
        yield member.join(view, top)
        yield member.call("settle", job_id, top)
        yield member.call("collect", job_id)
