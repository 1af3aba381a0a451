"""Matching by chance alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RandomMatching:
    """The rule that every provider has the same chance."""

    def weigh(self, reputation: float, stake_gwei: int) -> float:
        """Ask whoever comes up."""
        del reputation, stake_gwei
        return 1.0
