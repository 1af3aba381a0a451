"""A strategy of one's own: a provider that lies now and then, until a lie of its own is found."""

from dataclasses import dataclass, field

from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.strategies.base import Strategy
from moot.sim.economy.streams import Stream


@dataclass
class OnceBitten(Strategy):
    """The strategy of a lie in a share `rate` of all jobs, until it has cost a bond."""

    rate: float = 0.2
    _is_bitten: bool = field(init=False, repr=False, default=False)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Run nothing, now and then."""
        del job, own
        return "lazy" if not self._is_bitten and stream.draw() < self.rate else "honest"

    def hear(self, news: News) -> bool:
        """Learn that a bond is lost; stay in the market."""
        self._is_bitten = self._is_bitten or news.was_slashed
        return False
