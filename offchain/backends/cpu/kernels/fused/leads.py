"""The first columns of an operand's rows, where one vector of a constant stands for memory."""

from llvmlite import ir

from moot.offchain.backends.cpu.kernels.fused.frame import Frame
from moot.offchain.native import vectors
from moot.offchain.native.vectors import WORD


class Lead:
    """The lead of one row, if the region has leads.

    Args:
        frame: the kernel's frame.
        row: the row's number among all.
    """

    def __init__(self, frame: Frame, row: ir.Value) -> None:
        self._builder, lead = frame.builder, frame.region.lead
        self._value = None if lead is None else lead.value
        if lead is not None:
            place = self._builder.add(
                frame.get_buffer(lead.counts), self._builder.mul(row, WORD(WORD.width // 8))
            )
            self._count = vectors.load(self._builder, WORD, place)
            self._constant = frame.get_buffer(lead.constant)

    def find(self, index: int, column: ir.Value) -> ir.Value | None:
        """Whether a vector of an operand is in the lead, None if its rows have none."""
        if index != self._value:
            return None
        return self._builder.icmp_signed("<", column, self._count)

    def choose(self, is_inside: ir.Value | None, place: ir.Value) -> ir.Value:
        """The address of a vector, given where it would be in memory."""
        if is_inside is None:
            return place
        return self._builder.select(is_inside, self._constant, place)
