"""A trick that does not stay defeated."""

from collections.abc import Iterator
from itertools import islice

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class Revenant(Trick):
    """Lies, and joins the same claim from another account whenever an account is defeated."""

    def commit(self, view: View) -> Iterator[Call]:
        """Join with the first account."""
        yield from self.members[0].commit(view)

    def enter(self, view: View) -> Iterator[Call]:
        """Join again, against the claim that has won, while that is allowed."""
        claim = self.members[0].claim
        meeting = view.tournament.meetings.get(claim)
        is_out = claim not in view.tournament.get_claims()
        if meeting is not None and is_out and view.block <= meeting.window_end:
            for member in islice(self.list_outsiders(view), 1):
                yield member.join(view, claim)
