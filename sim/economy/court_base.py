"""The protocol of a court: whoever says what a job comes to that some conducts have met in."""

from typing import Protocol

from sim.economy.cases import Case, Lineup


class Court(Protocol):
    """The source of cases, at one fidelity."""

    fidelity: str
    """`modelled` or `played`."""

    def judge(self, lineup: Lineup, number: int) -> Case:
        """Return what one of a lineup's cases comes to."""

    def verify(self, lineup: Lineup, number: int) -> Case | None:
        """Return what the same case comes to on a chain, if this court is asked to compare."""
