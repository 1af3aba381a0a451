"""The cheat that trains from another start."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from moot.offchain.commitments.tensors import Array
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.drawing import Draws, flip_bit, get_bits, settled


@dataclass(eq=False)
class WrongStart(Behaviour):
    """Claims the agreed start, but trains from another: one bit of one tensor is flipped.

    Attributes:
        slot: the index of the state's tensor.
        element: its index in row-major order.
        bit: 0 is the lowest.
    """

    name = "wrong-start"
    slot: int | None = None
    element: int | None = None
    bit: int | None = None

    def draw(self, draws: Draws) -> Self:
        """Draw a bit of the parameters."""
        slots = draws.task.program.state
        trained = [i for i, s in enumerate(slots) if s.name.startswith("parameter.") and s.elements]
        default = int(draws.rng.choice(trained))
        index = draws.integer("slot", self.slot, len(slots), default)
        element = draws.integer("element", self.element, slots[index].elements)
        bit = draws.integer("bit", self.bit, get_bits(slots[index].dtype))
        return replace(self, slot=index, element=element, bit=bit)

    def alter_state(self, step: int, state: Sequence[Array]) -> Sequence[Array]:
        """Start elsewhere."""
        started = list(state)
        if step == 0:
            slot, element, bit = map(settled, (self.slot, self.element, self.bit))
            started[slot] = flip_bit(started[slot], element, bit)
        return started
