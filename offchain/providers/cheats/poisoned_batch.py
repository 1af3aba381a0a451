"""The cheat that trains one step on data of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.drawing import Draws, flip_bit, get_bits, settled


@dataclass(eq=False)
class PoisonedBatch(Behaviour):
    """Trains one step on data of its own: one bit of the batch is flipped.

    Attributes:
        step: counted from 0.
        slot: the index of the batch's tensor.
        element: its index in row-major order.
        bit: 0 is the lowest.
    """

    name = "poisoned-batch"
    step: int | None = None
    slot: int | None = None
    element: int | None = None
    bit: int | None = None

    def draw(self, draws: Draws) -> Self:
        """Draw a bit of the data; refuse a program that takes none."""
        slots = draws.task.program.batch
        if not slots:
            raise UsageError("poisoned-batch needs a program that takes data")
        step = draws.integer("step", self.step, draws.task.steps)
        index = draws.integer("slot", self.slot, len(slots))
        slot = slots[index]
        element = draws.integer("element", self.element, slot.elements)
        bit = draws.integer("bit", self.bit, _low_bits(slot.dtype))
        return replace(self, step=step, slot=index, element=element, bit=bit)

    def alter_batch(self, step: int, batch: Sequence[Array]) -> Sequence[Array]:
        """Poison the batch."""
        poisoned = list(batch)
        if step == self.step:
            slot, element, bit = map(settled, (self.slot, self.element, self.bit))
            poisoned[slot] = flip_bit(poisoned[slot], element, bit)
        return poisoned


def _low_bits(dtype: DType) -> int:
    """Return the bits of a datum that may be flipped so that an index stays small."""
    return 2 if dtype in {DType.INT64, DType.INT32} else get_bits(dtype)
