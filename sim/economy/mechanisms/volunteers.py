"""Checks that nobody pays for: a watcher that finds a lie has the prize, and otherwise nothing."""

from dataclasses import dataclass

from moot.sim.economy.mechanisms.base import Audit, check_rate


@dataclass(frozen=True, slots=True)
class Volunteers(Audit):
    """The rule that a share `rate` of all jobs is shown to a watcher, who may check it or not.

    This is how the contract is today, and where the verifier's dilemma arises: where nobody
    cheats, nobody is paid for checking, and then nobody checks.
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def choose_rate(self, reputation: float) -> float:
        """Return the same rate for all."""
        del reputation
        return self.rate
