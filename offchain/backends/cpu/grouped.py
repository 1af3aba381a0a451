"""Readers of operands along groups of variables, each of which is read as one variable."""

from collections.abc import Sequence
from typing import NamedTuple

from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.planning.accesses import Sizes, Strided, collapse_groups
from moot.offchain.programs.graph import Operand


class GroupedReader(NamedTuple):
    """A reader of float32 elements, and the strides of its buffer along groups, in elements."""

    reader: Reader
    strided: Strided

    @classmethod
    def of(
        cls,
        operand: Operand,
        sizes: Sizes,
        groups: Sequence[Sequence[int]],
        inner: Sequence[int] = (),
    ) -> "GroupedReader":
        """Return the reader of an operand, which makes a dense copy if need be.

        Args:
            operand: the operand.
            sizes: the extents of the variables.
            groups: the groups; no other variables matter to the operand.
            inner: strides of which the last group has to have one; any if there is none.
        """
        reader = Reader(operand, sizes)
        strided = collapse_groups(sizes, groups, reader.strided)
        if strided is None or (inner and strided.strides[-1] not in inner):
            reader = Reader(operand, sizes, [v for group in groups for v in group])
            strided = collapse_groups(sizes, groups, reader.strided)
        assert strided is not None
        return cls(reader, strided)

    @property
    def steps(self) -> tuple[int, ...]:
        """The strides in bytes."""
        return tuple(stride * FLOAT_BYTES for stride in self.strided.strides)

    @property
    def offset(self) -> int:
        """Where the first element is in the buffer, in bytes."""
        return self.strided.offset * FLOAT_BYTES
