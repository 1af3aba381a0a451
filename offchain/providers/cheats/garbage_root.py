"""The cheat that claims random bytes as the final state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from moot.offchain.commitments.tree import Digest
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.drawing import Draws


@dataclass(eq=False)
class GarbageRoot(Behaviour):
    """Claims a final state that nobody computed.

    Attributes:
        root: 32 bytes.
    """

    name = "garbage-root"
    root: Digest | None = None

    def draw(self, draws: Draws) -> Self:
        """Draw the bytes."""
        return replace(self, root=draws.word(self.root))

    def count_steps(self, steps: int, checkpoint_every: int) -> int:
        """Return how many steps there are up to the last checkpoint but one."""
        return (steps - 1) // checkpoint_every * checkpoint_every

    def alter_history(self, roots: Sequence[Digest]) -> Sequence[Digest]:
        """Replace the last state's root."""
        return [*roots[:-1], self.root or bytes(32)]
