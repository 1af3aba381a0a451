"""A trick that never shows its claim."""

from collections.abc import Iterator

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class Hidden(Trick):
    """Joins, looks at what the others show, and never shows its own claim."""

    def reveal(self, view: View) -> Iterator[Call]:
        """Show nothing."""
        del view
        yield from ()
