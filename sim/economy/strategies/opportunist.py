"""An opportunist: it cheats when that is worth more than it costs, as far as it has seen."""

from dataclasses import dataclass, field
from typing import ClassVar

from moot.offchain.errors import UsageError
from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.strategies.base import Strategy, check_conduct, check_shares
from moot.sim.economy.streams import Stream


@dataclass
class Opportunist(Strategy):
    """The strategy of whoever compares what a lie saves and gains with the bond that it may cost.

    It believes at first that a share `prior` of all jobs is checked, as firmly as if it had seen
    `weight` jobs, and learns from what it hears. Each lie of its own that was said to be checked
    and got through takes something from its belief in what is said. In a share `curiosity` of jobs
    it does the other thing.
    """

    learns: ClassVar[bool] = True
    conduct: str = "lazy"
    prior: float = 0.5
    weight: float = 4.0
    curiosity: float = 0.01
    _checked: float = field(init=False, repr=False, default=0.0)
    _seen: float = field(init=False, repr=False, default=0.0)
    _tested: int = field(init=False, repr=False, default=0)
    _caught: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        check_conduct(self.conduct)
        check_shares(prior=self.prior, curiosity=self.curiosity)
        if not self.weight > 0:
            raise UsageError(f"weight is {self.weight}, and not more than 0")

    def estimate(self) -> float:
        """Return how often it believes that a lie is found."""
        said = (self.prior * self.weight + self._checked) / (self.weight + self._seen)
        return said * (1 + self._caught) / (1 + self._tested)

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
        """Count what was said to be checked, and which of these lies were found."""
        is_said = news.was_checked or news.was_slashed
        self._seen += 1
        self._checked += is_said
        self._tested += news.is_cheating and is_said
        self._caught += news.is_cheating and news.was_slashed
        return False
