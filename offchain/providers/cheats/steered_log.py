"""The cheat that logs a direction where no rounding is in doubt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from moot.offchain.commitments.tensors import Array
from moot.offchain.programs.rounding.entries import StepLog
from moot.offchain.programs.rounding.meaning import is_loggable
from moot.offchain.providers.behaviour import Patch
from moot.offchain.providers.cheats.drawing import Draws, settled
from moot.offchain.providers.cheats.log_cheat import LogCheat, differs, run_until

DRAWS = 32
"""The number of draws of an element to steer, until one matters."""


@dataclass(eq=False)
class SteeredLog(LogCheat):
    """Posts a log with an entry for a rounding that is not in doubt, and does what it says."""

    name = "steered-log"

    def draw(self, draws: Draws) -> Self:
        """Draw an element until steering it changes the state."""
        task = draws.task
        step = draws.integer("step", self.step, task.steps)
        nodes = task.program.nodes
        loggable = [index for index, node in enumerate(nodes) if is_loggable(node)]
        executor, state = run_until(task, step)
        after = executor.run(state, task.batch(step), step)
        for _ in range(DRAWS):
            operator = draws.operator(self.operator, int(draws.rng.choice(loggable)))
            element = draws.integer("element", self.element, nodes[operator].elements)
            up = draws.integer("up", self.up, 2)
            cheat = replace(self, step=step, operator=operator, element=element, up=up)
            patched = executor.run(state, task.batch(step), step, patch=cheat.patch(step, state))
            if differs(after, patched):
                break
        return cheat

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Add the entry."""
        return self.turn(log) if step == self.step else log

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Do what the entry says, though the band does not allow it."""
        del state
        if step != self.step:
            return None
        element = settled(self.element)

        def steer(output: Array) -> Array:
            steered = np.array(output, np.float32)
            end = np.float32(np.inf if self.up else -np.inf)
            flat = steered.reshape(-1)
            flat[element] = np.nextafter(flat[element], end)
            return steered

        return {settled(self.operator): steer}
