"""An honest way to be late: it is there where nobody else has told the truth."""

from collections.abc import Iterator

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.late_lie import LateLie


class Watcher(LateLie):
    """Computes what is agreed, and joins late if nobody has shown the right claim."""

    def enter(self, view: View) -> Iterator[Call]:
        """Join if the claims that are shown are all wrong."""
        shown = set(view.tournament.get_claims())
        for member in self.list_outsiders(view):
            if shown and member.claim not in shown:
                yield member.join(view, member.claim)
