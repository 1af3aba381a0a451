"""A diligent watcher: it recomputes every job that it is shown."""

from dataclasses import dataclass

from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.base import WATCHER, Strategy
from moot.sim.economy.streams import Stream


@dataclass
class DiligentWatcher(Strategy):
    """The strategy of a watcher that does what it is asked."""

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Check."""
        del job, own, stream
        return WATCHER
