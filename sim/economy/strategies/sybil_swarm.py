"""A swarm of Sybils: one party behind many names, with several claims in each job."""

from dataclasses import dataclass

from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.base import Strategy
from moot.sim.economy.streams import Stream


@dataclass
class SybilSwarm(Strategy):
    """The strategy of a name that lies from three accounts, unless it is among its own.

    Beside others it makes them meet as many claims as it can; where all that run a job are its
    names there is nobody to delay, and they agree on a claim that cost nothing.
    """

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Look who is there."""
        del stream
        group = own.name.rpartition("-")[0]
        is_among_own = bool(job.rivals) and all(
            rival.rpartition("-")[0] == group for rival in job.rivals
        )
        return "lazy" if is_among_own else "sybil"
