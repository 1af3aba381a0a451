"""The cheat that leaves one step out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from moot.offchain.commitments.tensors import Array
from moot.offchain.programs.graph import Program
from moot.offchain.providers.behaviour import Behaviour, Patch
from moot.offchain.providers.cheats.drawing import Draws


def keep(old: Array) -> Callable[[Array], Array]:
    """Return what gives an old tensor in the place of an output."""
    return lambda _: old


@dataclass(eq=False)
class SkippedStep(Behaviour):
    """Claims that one step changes nothing.

    Attributes:
        step: counted from 0.
    """

    name = "skipped-step"
    step: int | None = None
    first_sink: int = field(default=0, init=False, repr=False)

    def draw(self, draws: Draws) -> Self:
        """Draw the step."""
        return replace(self, step=draws.integer("step", self.step, draws.task.steps))

    def bind(self, program: Program) -> None:
        """Find the sinks."""
        self.first_sink = program.first_sink

    def skips(self, step: int) -> bool:
        """Whether a step is left out."""
        return step == self.step

    def count_steps(self, steps: int, checkpoint_every: int) -> int:
        """Return how many steps are not left out."""
        del checkpoint_every
        return sum(not self.skips(step) for step in range(steps))

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Let every sink give back the old tensor."""
        if not self.skips(step):
            return None
        return {self.first_sink + slot: keep(old) for slot, old in enumerate(state)}
