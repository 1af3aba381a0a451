"""An exit scam on receipts: honest for a while, then one bond is promised many times over."""

from dataclasses import dataclass, field

from moot.offchain.errors import UsageError
from moot.sim.economy.facts import Job, Own, Pledge
from moot.sim.economy.strategies.base import Strategy, check_conduct
from moot.sim.economy.streams import Stream

WAYS = ("forks", "released", "honest")
"""How more is promised than there is: on several chains, as if all had ended, or not at all."""


@dataclass
class ExitScam(Strategy):
    """The strategy of an over-commitment: after `honest` jobs it lies in `lies`, and leaves.

    By `forks` it gives receipts on `chains` chains meanwhile, each to clients of its own, and the
    same bond backs all of them; by `released` on one, as if all before had ended; by `honest` none.
    """

    conduct: str = "wrong-output"
    honest: int = 200
    lies: int = 1000
    way: str = "forks"
    chains: int = 4
    _taken: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        check_conduct(self.conduct)
        if self.way not in WAYS:
            raise UsageError.unknown("way of an exit scam", self.way, WAYS, "ways")
        if self.lies < 1 or self.honest < 0 or not 1 <= self.chains <= 1024:
            raise UsageError(
                f"an exit scam of {self.honest} honest jobs, {self.lies} lies and {self.chains} "
                "chains is none; choose 0 or more, 1 or more, and 1 to 1024"
            )

    @property
    def _is_lying(self) -> bool:
        return self._taken > self.honest

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Count, and lie if the time has come."""
        del job, own, stream
        self._taken += 1
        return self.conduct if self._is_lying else "honest"

    def pledge(self, job: Job, own: Own) -> Pledge:
        """Promise the bond as often as it lies, and leave with the last lie."""
        del job, own
        if not self._is_lying:
            return Pledge()
        leaves = self._taken >= self.honest + self.lies
        return Pledge(
            chains=self.chains if self.way == "forks" else 1,
            hides=self.way == "released",
            leaves=leaves,
        )
