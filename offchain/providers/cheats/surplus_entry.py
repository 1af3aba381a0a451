"""The cheat that logs a turn which it does not make."""

from dataclasses import dataclass

from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.providers.cheats.log_cheat import LogCheat


@dataclass(eq=False)
class SurplusEntry(LogCheat):
    """Posts a log with an entry that the band allows, and does not do what it says."""

    name = "surplus-entry"

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Pass over the entry."""
        return self.drop(log) if step == self.step else log

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Add the entry."""
        return self.turn(log) if step == self.step else log
