"""The cheat that computes a step with the log of another."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.providers.cheats.drawing import Draws
from moot.offchain.providers.cheats.surplus_entry import SurplusEntry


@dataclass(eq=False)
class OtherLog(SurplusEntry):
    """Posts a log with an entry, and computes the step with the log of another step."""

    name = "other-log"
    logs: Sequence[StepLog] = field(default=(), init=False, repr=False)

    def draw(self, draws: Draws) -> Self:
        """Draw the turn, and remember the logs of all steps."""
        drawn = super().draw(draws)
        drawn.logs = draws.task.logs or ()
        return drawn

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Take the log of the step before, or after."""
        if step != self.step:
            return log
        others = self.logs[step - 1 : step] or self.logs[step + 1 : step + 2]
        return others[0] if others else StepLog()
