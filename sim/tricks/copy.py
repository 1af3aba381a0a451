"""A trick that lives on the work of others."""

from collections.abc import Iterator
from itertools import islice

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.late_lie import LateLie


class Copy(LateLie):
    """Computes nothing: joins late, with the first claim that somebody has shown, and is silent."""

    def enter(self, view: View) -> Iterator[Call]:
        """Copy a claim."""
        for top in islice(view.tournament.get_claims(), 1):
            for member in self.list_outsiders(view):
                yield member.join(view, top)

    def dispute(self, view: View) -> Iterator[Call]:
        """Make no move."""
        del view
        yield from ()
