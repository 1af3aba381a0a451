"""A cartel of a provider and a watcher: the one lies, the other says that all is well."""

from dataclasses import dataclass

from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.at_rate import AtRate
from moot.sim.economy.strategies.base import FREE_RIDE, WATCHER, Strategy
from moot.sim.economy.streams import Stream

NAME = "cartel"
"""The name of the strategy, with which the names of its agents begin."""


@dataclass
class Cartel(AtRate):
    """The strategy of a provider that lies in a share `rate` of its jobs, and has friends."""

    conduct: str = "lazy"


@dataclass
class CartelWatcher(Strategy):
    """The strategy of a watcher that gives its word for its friends, and never looks at them.

    Of jobs by receipt it knows whose they are; all others, and all by auction, it checks.
    """

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Look away if the job is a friend's."""
        del own, stream
        is_friend = any(name.rpartition("-")[0] == NAME for name in job.rivals)
        return FREE_RIDE if is_friend else WATCHER
