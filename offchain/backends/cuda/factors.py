"""The rows of factors: where they are in their tensors, so that vectors of them are copied.

Products read vectors of neighbours, along the steps of a row, or across rows, of bytes along steps
alone. Where a factor's tensor has such neighbours, it is read where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from moot.offchain.backends.cuda.elements import unravel
from moot.offchain.backends.cuda.kernel import COPIED_BYTES, Context, word
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.planning.accesses import coalesce, find_strided
from moot.offchain.programs.graph import Origin

SHORT_BYTES = 2
"""The bytes of an element of bfloat16."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A number that stands for several variables, and what they are worth in elements.

    Attributes:
        shape: their extents.
        strides: their strides.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def locate(self, context: Context, number: ir.Value) -> ir.Value:
        """Return how many elements a number's place is behind that of 0."""
        builder, found = context.builder, word(0)
        for variable, stride in zip(
            unravel(context, number, self.shape), self.strides, strict=True
        ):
            if stride:
                found = builder.add(found, builder.mul(variable.value, word(stride)))
        return found


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows of a factor are.

    Attributes:
        count: how many a batch has.
        offset: the first element.
        batches: the batches.
        lines: the rows of a batch.
        steps: the steps of a row.
        is_turned: whether the neighbours of an element are in other rows, not other steps.
        width: the bytes of an element.
    """

    count: int
    offset: int
    batches: Axis
    lines: Axis
    steps: Axis
    is_turned: bool = False
    width: int = SHORT_BYTES

    @property
    def vector(self) -> int:
        """The elements that a thread brings at once."""
        return COPIED_BYTES // self.width

    def locate(self, context: Context, batch: ir.Value, line: ir.Value, step: ir.Value) -> ir.Value:
        """Return the number of an element."""
        builder, found = context.builder, word(self.offset)
        pairs = (self.batches, batch), (self.lines, line), (self.steps, step)
        for axis, number in pairs:
            found = builder.add(found, axis.locate(context, number))
        return found


def find_rows(matrices: Matrices, axis: int, vector: int | None = None) -> Rows | None:
    """Return where the rows of a factor are in its tensor, None where they have to be copied.

    Args:
        matrices: the contraction.
        axis: which factor.
        vector: how many neighbours are read at once, as many as a copy has if it is None.
    """
    node, operand = matrices.node, matrices.node.operands[1 + axis]
    sizes = node.shape + node.fold_shape
    strided = find_strided(operand.rows, sizes)
    vector = vector or COPIED_BYTES // operand.dtype.width
    if operand.origin is Origin.IMMEDIATE or strided is None or strided.offset % vector:
        return None
    split, steps = matrices.split, range(len(node.shape), len(sizes))
    groups = split.batch, (split.rows, split.columns)[axis], steps
    batches, lines, along = (_make_axis(sizes, group, strided.strides) for group in groups)
    for inner, *others in ((along, batches, lines), (lines, batches, along)):
        outer = [*inner.strides[:-1], *(stride for each in others for stride in each.strides)]
        has_vectors = inner.strides[-1] == 1 and inner.shape[-1] % vector == 0
        is_turned, width = inner is lines, operand.dtype.width
        has_vectors &= width > 1 or not is_turned
        if has_vectors and not any(stride % vector for stride in outer):
            count = matrices.sides[axis]
            return Rows(count, strided.offset, batches, lines, along, is_turned, width)
    return None


def _make_axis(sizes: Sequence[int], group: Sequence[int], strides: Sequence[int]) -> Axis:
    shape, (found,) = coalesce(tuple(sizes[v] for v in group), [[strides[v] for v in group]])
    return Axis(shape, found)
