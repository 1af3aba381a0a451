"""A conduct at a chosen rate: what every cheat and every trick is as a strategy."""

from dataclasses import dataclass

from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.base import Strategy, check_conduct, check_shares
from moot.sim.economy.streams import Stream


@dataclass
class AtRate(Strategy):
    """The strategy of one `conduct` in a share `rate` of all jobs, and honesty in the others."""

    conduct: str = "honest"
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_conduct(self.conduct)
        check_shares(rate=self.rate)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Draw."""
        del job, own
        return self.conduct if self.rate == 1 or stream.draw() < self.rate else "honest"
