"""Colluders: they make the same false claim where none but them run a job."""

from dataclasses import dataclass

from moot.sim.economy.facts import Job, Own
from moot.sim.economy.strategies.base import Strategy, check_conduct
from moot.sim.economy.streams import Stream


@dataclass
class ColludingMajority(Strategy):
    """The strategy of a group whose members know each other by their names.

    A member that runs a job alone, or with others of the group, runs nothing and claims the start
    state, as they do; beside anybody else it is honest. `conduct` has to be one in which all make
    the same claim.
    """

    conduct: str = "lazy"

    def __post_init__(self) -> None:
        check_conduct(self.conduct)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Look who is there."""
        del stream
        group = own.name.rpartition("-")[0]
        is_alone = all(rival.rpartition("-")[0] == group for rival in job.rivals)
        return self.conduct if is_alone else "honest"
