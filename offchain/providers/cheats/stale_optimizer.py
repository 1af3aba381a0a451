"""The cheat that does not update the optimizer's state."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.programs.graph import Program
from moot.offchain.providers.behaviour import Behaviour, Patch
from moot.offchain.providers.cheats.drawing import Draws
from moot.offchain.providers.cheats.skipped_step import keep


@dataclass(eq=False)
class StaleOptimizer(Behaviour):
    """Does not update the optimizer's state in one step.

    Attributes:
        step: counted from 0.
    """

    name = "stale-optimizer"
    step: int | None = None
    program: Program | None = field(default=None, init=False, repr=False)

    def draw(self, draws: Draws) -> Self:
        """Draw the step; refuse a program whose optimizer has no state."""
        if not any(s.name.startswith("optimizer.") for s in draws.task.program.state):
            raise UsageError("stale-optimizer needs a program whose optimizer has a state")
        return replace(self, step=draws.integer("step", self.step, draws.task.steps))

    def bind(self, program: Program) -> None:
        """Find the sinks of the optimizer."""
        self.program = program

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Let the optimizer's sinks give back the old tensors."""
        program = self.program
        if step != self.step or program is None:
            return None
        return {
            program.first_sink + slot: keep(state[slot])
            for slot, each in enumerate(program.state)
            if each.name.startswith("optimizer.")
        }
