"""A builder of blocks that is a provider, too: it keeps its rivals' moves out of its own blocks."""

from dataclasses import dataclass

from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.base import Strategy, check_shares
from moot.sim.economy.streams import Stream


@dataclass
class CensoringBuilder(Strategy):
    """The strategy of whoever builds a share `power` of all blocks, and buys the others."""

    power: float = 0.3
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_shares(power=self.power, rate=self.rate)
        self.censor_share = 1.0 - self.power

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Lie, and censor."""
        del job, own
        return "censor" if stream.draw() < self.rate else "honest"
