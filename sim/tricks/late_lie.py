"""A trick that makes a job as long as it can."""

from collections.abc import Iterator

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class LateLie(Trick):
    """Joins with a lie in the last block in which a new claim may join, which prolongs the job."""

    def commit(self, view: View) -> Iterator[Call]:
        """Stay away."""
        del view
        yield from ()

    def enter(self, view: View) -> Iterator[Call]:
        """Join late."""
        if view.block == view.job.reveal_deadline + view.job.terms.window_blocks:
            for member in self.list_outsiders(view):
                yield member.join(view, member.claim)
