"""The cheat that makes the other turn than it logs."""

from dataclasses import dataclass

from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.providers.cheats.drawing import settled
from moot.offchain.providers.cheats.log_cheat import LogCheat, add_entry


@dataclass(eq=False)
class TurnedEntry(LogCheat):
    """Posts a log with an entry, and takes the other direction."""

    name = "turned-entry"

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Take the other direction."""
        return self.turn(log) if step == self.step else log

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Add the entry."""
        entry = (settled(self.operator), settled(self.element), not self.up)
        return add_entry(log, entry) if step == self.step else log
