"""An opportunist: it cheats when that is worth more than it costs, as far as it has seen."""

from dataclasses import dataclass, field

from sim.economy.facts import Job, News, Own
from sim.economy.strategies.base import Strategy
from sim.economy.streams import Stream


@dataclass
class Opportunist(Strategy):
    """The strategy of whoever compares what a lie saves and gains with the bond that it may cost.

    It believes at first that a share `prior` of all jobs is checked, as firmly as if it had seen
    `weight` jobs, and learns from what it hears. In a share `curiosity` of jobs it does the other
    thing.
    """

    conduct: str = "lazy"
    prior: float = 0.5
    weight: float = 4.0
    curiosity: float = 0.01
    _checked: float = field(init=False, repr=False, default=0.0)
    _seen: float = field(init=False, repr=False, default=0.0)

    def estimate(self) -> float:
        """Return how often it believes that a job is checked."""
        return (self.prior * self.weight + self._checked) / (self.weight + self._seen)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Compare."""
        risk = self.estimate()
        is_worth_it = own.work_gwei + (1 - risk) * job.gain_gwei > risk * (
            job.bond_gwei + job.price_gwei
        )
        if stream.draw() < self.curiosity:
            is_worth_it = not is_worth_it
        return self.conduct if is_worth_it else "honest"

    def hear(self, news: News) -> bool:
        """Count what was checked."""
        self._seen += 1
        self._checked += news.was_checked or news.was_slashed
        return False
