"""A trick that knows when it is lost, and saves what going on would cost."""

from collections.abc import Iterator

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class Quitter(Trick):
    """Lies, and lets its clock run out in every match: a lie that is disputed has lost its bond."""

    def dispute(self, view: View) -> Iterator[Call]:
        """Make no move."""
        del view
        yield from ()
