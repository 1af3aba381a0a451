"""The cheat that never moves."""

from dataclasses import dataclass

from moot.offchain.providers.cheats.garbage_root import GarbageRoot


@dataclass(eq=False)
class Silent(GarbageRoot):
    """Claims a final state that nobody computed, and never moves."""

    name = "silent"
    plays = False

    def count_steps(self, steps: int, checkpoint_every: int) -> int:
        """Return 0: what is never shown need not be known."""
        del steps, checkpoint_every
        return 0
