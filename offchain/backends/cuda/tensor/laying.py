"""Kernels that copy the rows of factors to where they serve, zeros behind each.

For warps they are copied one after the other, for warp groups in parts that are in device memory
what they are in shared memory, so that one copy in bulk brings a part.
"""

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from moot.offchain.backends.cuda.kernel import COPIED_BYTES, Context, Kernel, word
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.tensor.rows import PIECE, pad
from moot.offchain.backends.cuda.tensor.tiles import WIDTH
from moot.offchain.backends.cuda.tiling import reads_along_lines
from moot.offchain.backends.cuda.warpgroups import LINE_BYTES, swizzle
from moot.offchain.native import vectors
from moot.offchain.native.vectors import INDEX

_LINES = 64
_THREADS = 256
_PIECE_BYTES = PIECE * WIDTH
_PITCH = _PIECE_BYTES + 4
_HALF = ir.IntType(16)
_HALF_BITS = 16
_VECTOR = ir.IntType(8 * COPIED_BYTES)


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of a factor are that was copied or made: some rows at some steps each.

    A part is a panel of lines, which are rows, swizzled (`warpgroups.py`). Parts that follow each
    other have the same rows. What is behind the last row is multiplied, and stored by nobody.

    Attributes:
        batches: how many there are.
        rows: the rows of a batch.
        steps: the steps of a row.
        side: the rows of a part, of which a multiple is 64.
        width: the bytes of an element.
    """

    batches: int
    rows: int
    steps: int
    side: int
    width: int = WIDTH

    @property
    def depth(self) -> int:
        """The steps of a part: a line of a panel."""
        return LINE_BYTES // self.width

    @property
    def part_bytes(self) -> int:
        """The bytes of a part."""
        return self.side * LINE_BYTES

    @property
    def across(self) -> int:
        """The parts along rows."""
        return -(-self.rows // self.side)

    @property
    def along(self) -> int:
        """The parts along steps."""
        return -(-self.steps // self.depth)

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return self.batches * self.across * self.along * self.part_bytes

    def locate(self, context: Context, batch: ir.Value, tile: ir.Value, part: ir.Value) -> ir.Value:
        """Return how many bytes a part is behind the first, given its numbers across and along."""
        builder = context.builder
        number = builder.add(builder.mul(batch, word(self.across)), tile)
        number = builder.add(builder.mul(number, word(self.along)), part)
        return builder.mul(number, word(self.part_bytes))

    def find_vector(
        self, context: Context, batch: ir.Value, row: ir.Value, step: ir.Value
    ) -> ir.Value:
        """Return how many bytes the vector that has an element is behind the first part's first."""
        builder = context.builder
        line, tile = _split(builder, row, self.side)
        behind, number = _split(builder, step, self.depth)
        start = self.locate(context, batch, tile, number)
        vector = builder.udiv(behind, word(COPIED_BYTES // self.width))
        return builder.add(start, swizzle(builder, line, vector))


def part(matrices: Matrices, axis: int, side: int) -> Parts:
    """Return where the parts of a factor are that was copied."""
    sizes = matrices.batches, matrices.sides[axis], matrices.node.fold_length
    return Parts(*sizes, side, matrices.node.operands[1 + axis].dtype.width)


def count_blocks(matrices: Matrices, axis: int, parts: Parts | None = None) -> int:
    """Return the number of blocks that copy a factor, row by row or in parts."""
    return matrices.batches * prod(_count_tiles(matrices, axis, parts))


def _count_tiles(matrices: Matrices, axis: int, parts: Parts | None) -> tuple[int, int]:
    """Return how often there are 64 rows, and 64 bytes of each."""
    if parts is None:
        pieces = pad(matrices.node.fold_length) // PIECE
    else:
        pieces = parts.along * LINE_BYTES // _PIECE_BYTES
    return -(-matrices.sides[axis] // _LINES), pieces


def make_kernel(matrices: Matrices, axis: int, parts: Parts | None = None) -> Kernel:
    """Return the kernel that copies a factor's rows, a block for 64 rows and 64 bytes of each.

    Parameters are the addresses of the copy and of the factor's tensor.
    """
    writer = _Writer(matrices, axis, parts)
    return Kernel("lay_rows", 2, (writer.read, writer.store), _THREADS, _LINES * _PITCH)


class _Writer:
    """Writes the phases of the kernel."""

    def __init__(self, matrices: Matrices, axis: int, parts: Parts | None) -> None:
        self._count, self._steps = matrices.sides[axis], matrices.node.fold_length
        self._tiles, self._pieces = _count_tiles(matrices, axis, parts)
        self._read, self._parts = matrices.read_factor(axis, 1), parts
        self._along_lines = reads_along_lines(matrices.node, axis)
        self._width = matrices.node.operands[1 + axis].dtype.width
        self._piece = _PIECE_BYTES // self._width

    def _place(self, context: Context) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return a block's batch, its first row and its first step."""
        builder = context.builder
        piece, rest = _split(builder, context.block, self._pieces)
        line, batch = _split(builder, rest, self._tiles)
        return batch, builder.mul(line, word(_LINES)), builder.mul(piece, word(self._piece))

    def read(self, context: Context) -> None:
        """Bring a tile into shared memory; neighbouring threads read neighbours in memory."""
        builder = context.builder
        batch, first_line, first_step = self._place(context)
        for turn in range(_LINES * self._piece // _THREADS):
            number = builder.add(context.thread, word(turn * _THREADS))
            if self._along_lines:
                line, step = _split(builder, number, _LINES)
            else:
                step, line = _split(builder, number, self._piece)
            at = vectors.minimum(builder, builder.add(first_line, line), word(self._count - 1))
            along = builder.add(first_step, step)
            is_there = builder.icmp_unsigned("<", along, word(self._steps))
            along = builder.select(is_there, along, word(self._steps - 1))
            value = self._read(context, batch, at, along)
            if self._width == WIDTH:
                bits = builder.bitcast(value, INDEX)
                value = builder.trunc(builder.lshr(bits, INDEX(_HALF_BITS)), _HALF)
            value = builder.select(is_there, value, value.type(0))
            context.store_shared(value, self._locate(builder, line, step))

    def store(self, context: Context) -> None:
        """Store the tile, vector by vector."""
        builder = context.builder
        batch, first_line, first_step = self._place(context)
        vector_steps = COPIED_BYTES // self._width
        each = _PIECE_BYTES // COPIED_BYTES
        for turn in range(_LINES * each // _THREADS):
            number = builder.add(context.thread, word(turn * _THREADS))
            vector, line = _split(builder, number, each)
            step = builder.mul(vector, word(vector_steps))
            whole: ir.Value = ir.Constant(_VECTOR, 0)
            for part in range(_VECTOR.width // INDEX.width):
                offset = builder.add(self._locate(builder, line, step), word(part * 4))
                wide = builder.zext(context.load_shared(INDEX, offset), _VECTOR)
                whole = builder.or_(whole, builder.shl(wide, _VECTOR(part * INDEX.width)))
            at, along = builder.add(first_line, line), builder.add(first_step, step)
            if self._parts is not None:
                place = self._parts.find_vector(context, batch, at, along)
                context.store(whole, builder.add(context.parameters[0], place))
                continue
            with builder.if_then(builder.icmp_unsigned("<", at, word(self._count))):
                row = builder.add(builder.mul(batch, word(self._count)), at)
                start = builder.mul(row, word(self._pieces * PIECE))
                place = builder.mul(builder.add(start, along), word(WIDTH))
                context.store(whole, builder.add(context.parameters[0], place))

    def _locate(self, builder: ir.IRBuilder, line: ir.Value, step: ir.Value) -> ir.Value:
        """Return where an element of the tile is in shared memory."""
        return builder.add(builder.mul(line, word(_PITCH)), builder.mul(step, word(self._width)))


def _split(builder: ir.IRBuilder, number: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """Return what is left of a number by a size, and the quotient."""
    return builder.urem(number, word(size)), builder.udiv(number, word(size))
