"""A griefer: it joins honest jobs with a lie, so that others have to defend what is right."""

from dataclasses import dataclass

from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.base import Strategy, check_shares
from moot.sim.economy.streams import Stream


@dataclass
class Griefer(Strategy):
    """The strategy of a watcher that joins a share `rate` of the jobs it is shown with a lie."""

    rate: float = 1.0

    def __post_init__(self) -> None:
        check_shares(rate=self.rate)

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Join late, and lie."""
        del job, own
        return "late-lie" if stream.draw() < self.rate else None
