"""A delayer: somebody with much capital, who makes every dispute last as long as it can."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.base import Strategy
from moot.sim.economy.streams import Stream


@dataclass
class Delayer(Strategy):
    """The strategy of a lie whose every move is made in the last block of its clock.

    It goes on as long as it has `reserve` bonds left, and is honest from then on.
    """

    reserve: float = 2.0

    def __post_init__(self) -> None:
        if self.reserve < 0:
            raise UsageError(f"reserve is {self.reserve}, and not 0 or more")

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Delay if that can be paid for."""
        del stream
        return "last-block" if own.free_gwei >= self.reserve * job.bond_gwei else "honest"
