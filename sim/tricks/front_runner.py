"""A trick that overtakes the calls of others."""

from collections.abc import Iterator

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class FrontRunner(Trick):
    """Computes nothing: makes all calls of the others from its own account, a block before them."""

    def precede(self, view: View, pending: Call) -> Iterator[Call]:
        """Copy a call."""
        del view
        yield self.members[0].call(pending.name, *pending.args, value_wei=pending.value_wei)

    def act(self, view: View) -> Iterator[Call]:
        """Make no call except copies."""
        del view
        yield from ()
