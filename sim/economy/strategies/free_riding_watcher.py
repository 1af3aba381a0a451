"""A free rider: a watcher that says that all is well, and has not looked."""

from dataclasses import dataclass

from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.base import FREE_RIDE, Strategy
from moot.sim.economy.streams import Stream


@dataclass
class FreeRidingWatcher(Strategy):
    """The strategy of a watcher that is paid for nothing."""

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Say that all is well."""
        del job, own, stream
        return FREE_RIDE
