"""The cheat that claims what is right, and defends it badly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from moot.offchain.commitments.tree import Digest
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.drawing import Draws


@dataclass(eq=False)
class FalseFlag(Behaviour):
    """Posts the honest root and defends it badly: its traces begin with 32 random bytes.

    Attributes:
        leaf: the bytes.
    """

    name = "false-flag"
    accomplice = "wrong-output"
    leaf: Digest | None = None

    def draw(self, draws: Draws) -> Self:
        """Draw the bytes."""
        return replace(self, leaf=draws.word(self.leaf))

    def alter_trace(self, step: int, leaves: Sequence[Digest]) -> Sequence[Digest]:
        """Spoil the trace."""
        del step
        return [self.leaf or bytes(32), *leaves[1:]]
