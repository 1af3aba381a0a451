"""A learning strategy of one's own: a provider that tries several conducts, and keeps the best."""

from dataclasses import dataclass, field
from typing import ClassVar

from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.strategies.base import Strategy
from moot.sim.economy.streams import Stream

ARMS = ("honest", "lazy", "early-stop", "late-lie")


@dataclass
class Bandit(Strategy):
    """The strategy of whoever does what has brought most, and something else in `explore` of jobs.

    What a conduct has brought is a mean in which each new job counts `step`, so that what was long
    ago is forgotten.
    """

    learns: ClassVar[bool] = True
    explore: float = 0.05
    step: float = 0.02
    _brought: dict[str, float] = field(init=False, repr=False, default_factory=dict)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Try each conduct once, and then mostly the best."""
        del job, own
        untried = [arm for arm in ARMS if arm not in self._brought]
        if untried or stream.draw() < self.explore:
            choice = untried or ARMS
            return choice[int(stream.draw() * len(choice))]
        return max(self._brought, key=self._brought.__getitem__)

    def hear(self, news: News) -> bool:
        """Remember what the conduct has brought; stay in the market."""
        before = self._brought.get(news.conduct, news.profit_gwei)
        self._brought[news.conduct] = before + self.step * (news.profit_gwei - before)
        return False
