"""The cheat that stops before a step."""

from dataclasses import dataclass

from moot.offchain.providers.cheats.drawing import settled
from moot.offchain.providers.cheats.skipped_step import SkippedStep


@dataclass(eq=False)
class EarlyStop(SkippedStep):
    """Stops before a step and claims its state for all that follow."""

    name = "early-stop"

    def skips(self, step: int) -> bool:
        """Whether a step is left out."""
        return step >= settled(self.step)
