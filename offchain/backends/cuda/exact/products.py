"""Products of residues on tensor cores: each block has a tile of one modulus' product.

A step brings 64 bytes of every row into shared memory, and meanwhile the next ones into registers.
Sums of 2^16 products fit into 32 bits; what is left of them by the modulus is stored as a byte.
"""

from dataclasses import dataclass
from itertools import product

from llvmlite import ir

from moot.offchain.backends.cuda.exact.residues import PIECE, Cut
from moot.offchain.backends.cuda.kernel import (
    INSTRUCTIONS,
    WARP,
    Context,
    Instruction,
    Kernel,
    Loop,
    Products,
    word,
)
from moot.offchain.native.vectors import BYTE, INDEX

MOST_PIECES = (1 << 16) // PIECE
"""Pieces of rows whose products 32 bits hold: 2^16 of at most 2^14."""

_PITCH = PIECE + 16
"""The bytes from one row to the next in shared memory, so that no two threads of a warp need one
bank."""

_VECTOR = ir.IntType(128)
_VECTOR_BYTES = 16
_VECTORS = PIECE // _VECTOR_BYTES
_PARAMETERS = 7
_TURNS = 3
"""The place of the parameter that says how many pieces there are."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a block.

    Attributes:
        instruction: what its warps do.
        warps: along rows and columns.
        own: products of a warp along both.
    """

    instruction: Instruction
    warps: tuple[int, int] = (2, 4)
    own: tuple[int, int] = (4, 4)

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return WARP * self.warps[0] * self.warps[1]

    @property
    def of_warp(self) -> tuple[int, int]:
        """The rows and columns of a warp."""
        return self.own[0] * self.instruction.rows, self.own[1] * self.instruction.columns

    @property
    def sides(self) -> tuple[int, int]:
        """The rows and columns of a block."""
        rows, columns = self.of_warp
        return self.warps[0] * rows, self.warps[1] * columns

    @property
    def loads(self) -> tuple[int, int]:
        """The vectors that a thread brings in of each factor."""
        rows, columns = (-(-side * _VECTORS // self.threads) for side in self.sides)
        return rows, columns


def choose_tile(capability: tuple[int, int]) -> Tile:
    """Return the tile for devices of a compute capability."""
    return Tile(INSTRUCTIONS[max(least for least in INSTRUCTIONS if least <= capability)])


def count_blocks(a: Cut, b: Cut, batches: int, tile: Tile) -> int:
    """Return the number of blocks."""
    rows, columns = (-(-x.rows // side) for x, side in zip((a, b), tile.sides, strict=True))
    return len(a.moduli) * batches * rows * columns


def make_kernel(a: Cut, b: Cut, tile: Tile) -> Kernel:
    """Return the kernel that multiplies the residues of two factors.

    Parameters are the addresses of the residues of the products, (moduli, batches, rows, columns)
    bytes, of those of both factors, how many pieces of their rows are multiplied, the first of
    these, whether what is stored already is added to, and how many batches there are.
    """
    writer = _Writer(a, b, tile)
    loop = Loop(_TURNS, (writer.share, writer.fetch, Products(tile.instruction, writer.places)))
    shared = sum(tile.sides) * _PITCH
    steps = (writer.begin, loop, writer.end)
    return Kernel("multiply_bytes", _PARAMETERS, steps, tile.threads, shared, writer.cells)


class _Writer:
    """Writes the phases of the kernel; a thread's cells are numbered here."""

    def __init__(self, a: Cut, b: Cut, tile: Tile) -> None:
        self._factors, self._tile = (a, b), tile
        self._deep = PIECE // tile.instruction.depth
        counts = tile.instruction.cells
        own = tile.own
        first, second = own[0] * self._deep * counts[0], own[1] * self._deep * counts[1]
        self._starts = (0, first, first + second)
        self._ahead = first + second + own[0] * own[1] * counts[2]
        self.cells = self._ahead + 4 * sum(tile.loads)
        self.places = tuple(
            (self._cell(0, r, d), self._cell(1, c, d), self._sum(r, c))
            for d, r, c in product(range(self._deep), range(own[0]), range(own[1]))
        )

    def _cell(self, factor: int, number: int, depth: int) -> int:
        """The first cell of a part of a factor."""
        count = self._tile.instruction.cells[factor]
        return self._starts[factor] + (number * self._deep + depth) * count

    def _sum(self, row: int, column: int) -> int:
        """The first cell of a product's sum."""
        count = self._tile.instruction.cells[2]
        return self._starts[2] + (row * self._tile.own[1] + column) * count

    def _locate(self, context: Context) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
        """Return the block's modulus' number, its batch, and its first row and column."""
        builder, tile = context.builder, self._tile
        number, firsts = context.block, []
        for factor, side in reversed(list(zip(self._factors, tile.sides, strict=True))):
            tiles = word(-(-factor.rows // side))
            firsts.append(builder.mul(builder.urem(number, tiles), word(side)))
            number = builder.udiv(number, tiles)
        batches = context.parameters[6]
        return builder.udiv(number, batches), builder.urem(number, batches), firsts[::-1]

    def begin(self, context: Context) -> None:
        """Clear the sums, and ask for the first piece."""
        for number in range(self._starts[2], self._ahead):
            context.set_cell(number, INDEX(0))
        self._look_ahead(context, word(0))

    def _look_ahead(self, context: Context, piece: ir.Value) -> None:
        """Bring a piece of the block's rows into registers."""
        builder, tile = context.builder, self._tile
        modulus, batch, firsts = self._locate(context)
        matrix = builder.add(builder.mul(modulus, context.parameters[6]), batch)
        start = builder.mul(builder.add(context.parameters[4], piece), word(PIECE))
        cell = self._ahead
        for factor, cut in enumerate(self._factors):
            for turn in range(tile.loads[factor]):
                line, vector = self._assign(context, turn)
                row = builder.add(firsts[factor], line)
                is_there = builder.icmp_unsigned("<", row, word(cut.rows))
                row = builder.select(is_there, row, word(cut.rows - 1))
                row = builder.add(builder.mul(matrix, word(cut.rows)), row)
                place = builder.add(builder.mul(row, word(cut.padded)), start)
                place = builder.add(place, builder.mul(vector, word(_VECTOR_BYTES)))
                address = builder.add(context.parameters[1 + factor], place)
                found = context.load(_VECTOR, address)
                for part in range(4):
                    shifted = builder.lshr(found, ir.Constant(_VECTOR, 32 * part))
                    context.set_cell(cell + part, builder.trunc(shifted, INDEX))
                cell += 4

    def _assign(self, context: Context, turn: int) -> tuple[ir.Value, ir.Value]:
        """Return the row in the block's tile, and which vector of it, that a thread brings in."""
        builder = context.builder
        number = builder.add(context.thread, word(turn * self._tile.threads))
        return builder.udiv(number, word(_VECTORS)), builder.urem(number, word(_VECTORS))

    def share(self, context: Context) -> None:
        """Put the piece that was brought in into shared memory."""
        builder, tile, cell = context.builder, self._tile, self._ahead
        for factor in (0, 1):
            for turn in range(tile.loads[factor]):
                line, vector = self._assign(context, turn)
                whole: ir.Value = ir.Constant(_VECTOR, 0)
                for part in range(4):
                    wide = builder.zext(context.get_cell(cell + part, INDEX), _VECTOR)
                    shifted = builder.shl(wide, ir.Constant(_VECTOR, 32 * part))
                    whole = builder.or_(whole, shifted)
                offset = builder.mul(vector, word(_VECTOR_BYTES))
                is_there = builder.icmp_unsigned("<", line, word(tile.sides[factor]))
                with builder.if_then(is_there):
                    context.store_shared(whole, self._shared(context, factor, line, offset))
                cell += 4

    def _shared(self, context: Context, factor: int, line: ir.Value, offset: ir.Value) -> ir.Value:
        builder = context.builder
        first = word(self._tile.sides[0] * factor)
        return builder.add(builder.mul(builder.add(line, first), word(_PITCH)), offset)

    def _get_lane(self, context: Context) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
        """Return the thread's group in its warp, its place in the group, and the warp's place."""
        builder = context.builder
        lane = builder.urem(context.thread, word(WARP))
        warp = builder.udiv(context.thread, word(WARP))
        across = word(self._tile.warps[1])
        places = [builder.udiv(warp, across), builder.urem(warp, across)]
        return builder.udiv(lane, word(4)), builder.urem(lane, word(4)), places

    def fetch(self, context: Context) -> None:
        """Bring the warp's rows and columns into the threads' cells, and ask for the next piece."""
        builder, tile = context.builder, self._tile
        following = builder.add(context.turn, word(1))
        is_last = builder.icmp_unsigned("==", following, context.parameters[_TURNS])
        self._look_ahead(context, builder.select(is_last, context.turn, following))
        group, place, warp = self._get_lane(context)
        size = tile.instruction
        for factor, height in enumerate((size.rows, size.columns)):
            first = builder.mul(warp[factor], word(tile.of_warp[factor]))
            for number, depth in product(range(tile.own[factor]), range(self._deep)):
                for cell in range(size.cells[factor]):
                    down, along = (8 * (cell % 2), cell // 2) if factor == 0 else (0, cell)
                    line = builder.add(first, word(number * height + down))
                    line = builder.add(line, group)
                    offset = builder.mul(place, word(4))
                    offset = builder.add(offset, word(depth * size.depth + 16 * along))
                    value = context.load_shared(INDEX, self._shared(context, factor, line, offset))
                    context.set_cell(self._cell(factor, number, depth) + cell, value)

    def end(self, context: Context) -> None:
        """Store what is left of the sums by the modulus."""
        builder, tile = context.builder, self._tile
        number, batch, firsts = self._locate(context)
        modulus: ir.Value = INDEX(0)
        for index, each in enumerate(self._factors[0].moduli):
            is_this = builder.icmp_unsigned("==", number, word(index))
            modulus = builder.select(is_this, INDEX(each), modulus)
        matrix = builder.add(builder.mul(number, context.parameters[6]), batch)
        group, place, warp = self._get_lane(context)
        starts = [
            builder.add(first, builder.mul(w, word(side)))
            for first, w, side in zip(firsts, warp, tile.of_warp, strict=True)
        ]
        size = tile.instruction
        for r, c, cell in product(*map(range, (*tile.own, size.cells[2]))):
            row = builder.add(group, word(r * size.rows + 8 * (cell // 2)))
            column = builder.add(builder.mul(place, word(2)), word(c * size.columns + cell % 2))
            at = [builder.add(*pair) for pair in zip(starts, (row, column), strict=True)]
            total = context.get_cell(self._sum(r, c) + cell, INDEX)
            self._store(context, matrix, at, total, modulus)

    def _store(
        self,
        context: Context,
        matrix: ir.Value,
        at: list[ir.Value],
        total: ir.Value,
        modulus: ir.Value,
    ) -> None:
        builder, sizes = context.builder, [word(cut.rows) for cut in self._factors]
        checks = [builder.icmp_unsigned("<", x, size) for x, size in zip(at, sizes, strict=True)]
        with builder.if_then(builder.and_(*checks)):
            row = builder.add(builder.mul(matrix, sizes[0]), at[0])
            offset = builder.add(builder.mul(row, sizes[1]), at[1])
            address = builder.add(context.parameters[0], offset)
            before = builder.zext(context.load(BYTE, address), INDEX)
            adds = builder.icmp_unsigned("!=", context.parameters[5], word(0))
            total = builder.add(total, builder.select(adds, before, INDEX(0)))
            rest = builder.srem(total, modulus)
            is_negative = builder.icmp_signed("<", rest, INDEX(0))
            rest = builder.select(is_negative, builder.add(rest, modulus), rest)
            context.store(builder.trunc(rest, BYTE), address)
