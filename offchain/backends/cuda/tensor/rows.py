"""The rows of factors in bfloat16: where they are, and kernels that copy them to where they serve.

Products read vectors of neighbours, along the steps of a row or across rows. Where a factor's
tensor has such neighbours, it is read where it is. For any other access the rows are copied once,
one after the other, zeros behind the last step of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from moot.offchain.backends.cuda.elements import unravel
from moot.offchain.backends.cuda.kernel import Context, Kernel, word
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.tensor.tiles import VECTOR, WIDTH
from moot.offchain.backends.cuda.tiling import reads_along_lines
from moot.offchain.native import vectors
from moot.offchain.native.vectors import INDEX
from moot.offchain.planning.accesses import coalesce, find_strided
from moot.offchain.programs.graph import Origin

PIECE = 32
"""Steps of a row that is copied are a multiple of this."""

_LINES = 64
_THREADS = 256
_PITCH = (PIECE + 2) * WIDTH
_HALF = ir.IntType(16)
_HALF_BITS = 16
_VECTOR = ir.IntType(8 * WIDTH * VECTOR)


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
    """

    count: int
    offset: int
    batches: Axis
    lines: Axis
    steps: Axis
    is_turned: bool = False

    def locate(self, context: Context, batch: ir.Value, line: ir.Value, step: ir.Value) -> ir.Value:
        """Return the number of an element."""
        builder, found = context.builder, word(self.offset)
        pairs = (self.batches, batch), (self.lines, line), (self.steps, step)
        for axis, number in pairs:
            found = builder.add(found, axis.locate(context, number))
        return found


def lay_out(matrices: Matrices, axis: int) -> Rows:
    """Return where the rows of a factor are that was copied."""
    count, steps = matrices.sides[axis], pad(matrices.node.fold_length)
    batches, lines = Axis((matrices.batches,), (count * steps,)), Axis((count,), (steps,))
    return Rows(count, 0, batches, lines, Axis((steps,), (1,)))


def pad(steps: int) -> int:
    """Return the steps of a row that is copied."""
    return -(-steps // PIECE) * PIECE


def find_rows(matrices: Matrices, axis: int) -> Rows | None:
    """Return where the rows of a factor are in its tensor, None where they have to be copied."""
    node, operand = matrices.node, matrices.node.operands[1 + axis]
    sizes = node.shape + node.fold_shape
    strided = find_strided(operand.rows, sizes)
    if operand.origin is Origin.IMMEDIATE or strided is None or strided.offset % VECTOR:
        return None
    split, steps = matrices.split, range(len(node.shape), len(sizes))
    groups = split.batch, (split.rows, split.columns)[axis], steps
    batches, lines, along = (_make_axis(sizes, group, strided.strides) for group in groups)
    for inner, *others in ((along, batches, lines), (lines, batches, along)):
        outer = [*inner.strides[:-1], *(stride for each in others for stride in each.strides)]
        has_vectors = inner.strides[-1] == 1 and inner.shape[-1] % VECTOR == 0
        if has_vectors and not any(stride % VECTOR for stride in outer):
            count = matrices.sides[axis]
            return Rows(count, strided.offset, batches, lines, along, inner is lines)
    return None


def _make_axis(sizes: Sequence[int], group: Sequence[int], strides: Sequence[int]) -> Axis:
    shape, (found,) = coalesce(tuple(sizes[v] for v in group), [[strides[v] for v in group]])
    return Axis(shape, found)


def count_blocks(matrices: Matrices, axis: int) -> int:
    """Return the number of blocks that copy a factor."""
    lines = -(-matrices.sides[axis] // _LINES)
    return matrices.batches * lines * pad(matrices.node.fold_length) // PIECE


def make_kernel(matrices: Matrices, axis: int) -> Kernel:
    """Return the kernel that copies a factor's rows, a block for 64 rows and 32 steps of each.

    Parameters are the addresses of the copy and of the factor's tensor.
    """
    writer = _Writer(matrices, axis)
    return Kernel("lay_rows", 2, (writer.read, writer.store), _THREADS, _LINES * _PITCH)


class _Writer:
    """Writes the phases of the kernel."""

    def __init__(self, matrices: Matrices, axis: int) -> None:
        self._count, self._steps = matrices.sides[axis], matrices.node.fold_length
        self._pieces = pad(self._steps) // PIECE
        self._read = matrices.read_factor(axis, 1)
        self._along_lines = reads_along_lines(matrices.node, axis)

    def _place(self, context: Context) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return a block's batch, its first row and its first step."""
        builder, tiles = context.builder, -(-self._count // _LINES)
        piece, rest = _split(builder, context.block, self._pieces)
        line, batch = _split(builder, rest, tiles)
        return batch, builder.mul(line, word(_LINES)), builder.mul(piece, word(PIECE))

    def read(self, context: Context) -> None:
        """Bring a tile into shared memory; neighbouring threads read neighbours in memory."""
        builder = context.builder
        batch, first_line, first_step = self._place(context)
        for turn in range(_LINES * PIECE // _THREADS):
            number = builder.add(context.thread, word(turn * _THREADS))
            if self._along_lines:
                line, step = _split(builder, number, _LINES)
            else:
                step, line = _split(builder, number, PIECE)
            at = vectors.minimum(builder, builder.add(first_line, line), word(self._count - 1))
            along = builder.add(first_step, step)
            is_there = builder.icmp_unsigned("<", along, word(self._steps))
            along = builder.select(is_there, along, word(self._steps - 1))
            value = builder.bitcast(self._read(context, batch, at, along), INDEX)
            half = builder.trunc(builder.lshr(value, INDEX(_HALF_BITS)), _HALF)
            half = builder.select(is_there, half, _HALF(0))
            context.store_shared(half, _locate(builder, line, step))

    def store(self, context: Context) -> None:
        """Store the tile, vector by vector."""
        builder = context.builder
        batch, first_line, first_step = self._place(context)
        each = PIECE // VECTOR
        for turn in range(_LINES * each // _THREADS):
            number = builder.add(context.thread, word(turn * _THREADS))
            vector, line = _split(builder, number, each)
            step = builder.mul(vector, word(VECTOR))
            whole: ir.Value = ir.Constant(_VECTOR, 0)
            for part in range(_VECTOR.width // INDEX.width):
                offset = builder.add(_locate(builder, line, step), word(part * 4))
                wide = builder.zext(context.load_shared(INDEX, offset), _VECTOR)
                whole = builder.or_(whole, builder.shl(wide, _VECTOR(part * INDEX.width)))
            at = builder.add(first_line, line)
            with builder.if_then(builder.icmp_unsigned("<", at, word(self._count))):
                row = builder.add(builder.mul(batch, word(self._count)), at)
                start = builder.add(builder.mul(row, word(self._pieces * PIECE)), first_step)
                place = builder.mul(builder.add(start, step), word(WIDTH))
                context.store(whole, builder.add(context.parameters[0], place))


def _split(builder: ir.IRBuilder, number: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """Return what is left of a number by a size, and the quotient."""
    return builder.urem(number, word(size)), builder.udiv(number, word(size))


def _locate(builder: ir.IRBuilder, line: ir.Value, step: ir.Value) -> ir.Value:
    """Return where an element of the tile is in shared memory."""
    return builder.add(builder.mul(line, word(_PITCH)), builder.mul(step, word(WIDTH)))


def count_bytes(matrices: Matrices, axis: int) -> int:
    """Return the bytes of a factor's copy."""
    steps = pad(matrices.node.fold_length)
    return prod((matrices.batches, matrices.sides[axis], steps, WIDTH))
