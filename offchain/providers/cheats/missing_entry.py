"""The cheat that turns a rounding and leaves it out of the log."""

from dataclasses import dataclass

from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.providers.cheats.log_cheat import LogCheat


@dataclass(eq=False)
class MissingEntry(LogCheat):
    """Turns a rounding as the band allows, and posts a log that does not say so."""

    name = "missing-entry"

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Turn the element."""
        return self.turn(log) if step == self.step else log

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Leave the entry out."""
        return self.drop(log) if step == self.step else log
