"""The cheat that flips one bit of an operator's output."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from moot.offchain.commitments.tensors import Array
from moot.offchain.programs.semantics import count_links
from moot.offchain.providers.behaviour import Behaviour, Patch
from moot.offchain.providers.cheats.drawing import Draws, flip_bit, get_bits, settled


@dataclass(eq=False)
class WrongOutput(Behaviour):
    """Flips one bit of one element of one operator's output, in one step.

    When the element is a fold, the lie enters at accumulator `position` + 1 and stays; the last
    position is that of the step which finishes the fold, where that is one.

    Attributes:
        step: counted from 0.
        operator: its index or its name.
        element: its index in row-major order.
        bit: 0 is the lowest.
        position: the step of the fold.
    """

    name = "wrong-output"
    step: int | None = None
    operator: int | str | None = None
    element: int | None = None
    bit: int | None = None
    position: int | None = None

    def draw(self, draws: Draws) -> Self:
        """Draw a place in the program."""
        step = draws.integer("step", self.step, draws.task.steps)
        program, operator = draws.task.program, draws.operator(self.operator)
        node = program.nodes[operator]
        return replace(
            self,
            step=step,
            operator=operator,
            element=draws.integer("element", self.element, node.elements),
            bit=draws.integer("bit", self.bit, get_bits(node.dtype)),
            position=draws.integer(
                "position", self.position, max(1, count_links(program.arithmetic, node))
            ),
        )

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Tamper with the one output."""
        del state
        if step != self.step:
            return None
        element, bit = settled(self.element), settled(self.bit)
        return {settled(self.operator): lambda output: flip_bit(output, element, bit)}

    def alter_partials(self, step: int, operator: int, element: int, partials: Array) -> Array:
        """Jump from the honest accumulators to the claimed one."""
        if (step, operator, element) != (self.step, self.operator, self.element):
            return partials
        lie = flip_bit(partials[-1:], 0, settled(self.bit))
        kept = partials[: settled(self.position) + 1]
        return np.concatenate([kept, np.repeat(lie, len(partials))])[: len(partials)]
