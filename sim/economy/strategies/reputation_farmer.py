"""A farmer of reputation: honest until its name is good, and then a cheat until it leaves."""

from dataclasses import dataclass, field

from moot.offchain.errors import UsageError
from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.strategies.base import Strategy, check_conduct
from moot.sim.economy.streams import Stream


@dataclass
class ReputationFarmer(Strategy):
    """The strategy of an exit scam: from a reputation of `ripe` on it cheats in `scams` jobs."""

    conduct: str = "lazy"
    ripe: float = 0.9
    scams: int = 20
    _is_ripe: bool = field(init=False, repr=False, default=False)
    _done: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        check_conduct(self.conduct)
        if self.scams < 1:
            raise UsageError(f"scams is {self.scams}, and not at least 1")

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Cheat if the time has come."""
        del job, stream
        self._is_ripe = self._is_ripe or own.reputation >= self.ripe
        return self.conduct if self._is_ripe else "honest"

    def hear(self, news: News) -> bool:
        """Leave when enough has been taken."""
        self._done += news.is_cheating
        return self._done >= self.scams
