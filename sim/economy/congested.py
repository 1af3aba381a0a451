"""A congested referee: in some blocks no call gets in, as they cost more than calls may pay."""

from collections.abc import Sequence

from moot.offchain.disputes.referee.port import Answer, Call, Referee
from moot.sim.relay import Relay

Closed = tuple[tuple[int, int], ...]
"""Blocks of a case, counted from that in which its job was opened: each first one without a call,
and the next in which one gets in."""


class Congested(Relay):
    """A referee whose next block is always one in which calls get in.

    Those who play see the chain as it is then, and do what is left to do: whoever would have moved
    in the meantime moves late, or finds its clock run out and its rival calling `timeout`.

    Args:
        referee: the referee that gets the calls; the first one opens the job.
        closed: when none gets in; never at the opening.
    """

    def __init__(self, referee: Referee, closed: Closed) -> None:
        super().__init__(referee)
        self._closed = closed
        self._opened: int | None = None

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls, and let time pass until others get in."""
        if self._opened is None:
            self._opened = self.referee.block_number() + 1
        answers = super().transact_all(calls)
        self._skip()
        return answers

    def mine(self, blocks: int) -> None:
        """Let time pass, and then some more until calls get in."""
        super().mine(blocks)
        self._skip()

    def _skip(self) -> None:
        if self._opened is None:
            return
        for first, end in self._closed:
            following = self.referee.block_number() + 1 - self._opened
            if first <= following < end:
                self.referee.mine(end - following)
