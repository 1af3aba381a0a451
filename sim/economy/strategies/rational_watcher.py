"""A rational watcher: it checks as long as that has paid, and finds out anew now and then."""

from dataclasses import dataclass, field
from typing import ClassVar

from moot.offchain.errors import UsageError
from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.strategies.base import FREE_RIDE, WATCHER, Strategy, check_shares
from moot.sim.economy.streams import Stream


@dataclass
class RationalWatcher(Strategy):
    """The strategy of whoever knows or learns what a check brings, and compares it with its cost.

    What errors that are forced bring on average it knows: the rule says it. What lies bring it
    learns. It believes at first that a check brings `prior_eth`, fee and cost apart, as firmly as
    if it had made `weight` of them; what is older than some `memory` checks is forgotten. In a
    share `curiosity` of jobs it checks in any case. What it is paid for looking it is paid without
    looking, too, so that only what it finds counts.
    """

    learns: ClassVar[bool] = True
    prior_eth: float = 0.1
    weight: float = 5.0
    memory: float = 200.0
    curiosity: float = 0.01
    _brought: float = field(init=False, repr=False, default=0.0)
    _checks: float = field(init=False, repr=False, default=0.0)

    def __post_init__(self) -> None:
        check_shares(curiosity=self.curiosity)
        if not self.weight > 0 or not self.memory >= 1:
            raise UsageError("weight is more than 0, and memory at least 1")

    def estimate(self) -> float:
        """Return what it believes that a check brings, in gwei."""
        prior_gwei = self.prior_eth * 10**9
        return (prior_gwei * self.weight + self._brought) / (self.weight + self._checks)

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Compare."""
        brings_gwei = max(self.estimate(), job.bait_gwei)
        is_worth_it = brings_gwei > own.work_gwei or stream.draw() < self.curiosity
        if is_worth_it:
            return WATCHER
        return FREE_RIDE if job.audit_gwei else None

    def hear(self, news: News) -> bool:
        """Note what a check has brought: the prize or the jackpot, less gas."""
        if news.conduct == WATCHER:
            fading = 1.0 - 1.0 / self.memory
            self._brought = self._brought * fading + news.found_gwei
            self._checks = self._checks * fading + 1.0
        return False
