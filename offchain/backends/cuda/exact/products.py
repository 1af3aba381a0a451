"""Products of residues by warps: each block has a tile of one modulus' product.

A step brings 64 bytes of every row into shared memory, and meanwhile the next ones into registers.
"""

from collections.abc import Iterator
from itertools import product

from llvmlite import ir

from moot.offchain.backends.cuda.exact.outputs import Residues
from moot.offchain.backends.cuda.exact.residues import PIECE, Cut
from moot.offchain.backends.cuda.exact.tiles import Tile
from moot.offchain.backends.cuda.kernel import WARP, Context, Kernel, Loop, Products, word
from moot.offchain.backends.cuda.tensor.outputs import Element
from moot.offchain.native.vectors import INDEX

_PITCH = PIECE + 16
"""The bytes from one row to the next in shared memory, so that no two threads of a warp need one
bank."""

_VECTOR = ir.IntType(128)
_VECTOR_BYTES = 16
_VECTORS = PIECE // _VECTOR_BYTES
_PARAMETERS, _TURNS = 5, 4


def make_kernel(a: Cut, b: Cut, tile: Tile) -> Kernel:
    """Return the kernel that multiplies the residues of two factors.

    Parameters are those of products by warp groups (`tensor/groups.py`): the addresses of the
    residues of the products, of those that are added to, and of both factors' first piece, how many
    pieces of their rows are multiplied, and how many batches there are.
    """
    writer = _Writer(a, b, tile)
    loop = Loop(_TURNS, (writer.share, writer.fetch, Products(tile.instruction, writer.places)))
    shared = sum(tile.sides) * _PITCH
    steps = (writer.begin, loop, writer.end)
    parameters = _PARAMETERS + Residues.parameters
    return Kernel("multiply_bytes", parameters, steps, tile.threads, shared, writer.cells)


class _Writer:
    """Writes the phases of the kernel; a thread's cells are numbered here."""

    def __init__(self, a: Cut, b: Cut, tile: Tile) -> None:
        self._factors, self._tile = (a, b), tile
        self._output = Residues((a, b), tile.sides)
        rows, columns = (-(-side * _VECTORS // tile.threads) for side in tile.sides)
        self._loads = rows, columns
        self._deep = PIECE // tile.instruction.depth
        counts = tile.instruction.cells
        own = tile.own
        first, second = own[0] * self._deep * counts[0], own[1] * self._deep * counts[1]
        self._starts = (0, first, first + second)
        self._ahead = first + second + own[0] * own[1] * counts[2]
        self.cells = self._ahead + 4 * sum(self._loads)
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

    def begin(self, context: Context) -> None:
        """Begin the sums, and ask for the first piece."""
        self._output.start(context, self._list_elements(context), context.parameters[1])
        self._look_ahead(context, word(0))

    def _look_ahead(self, context: Context, piece: ir.Value) -> None:
        """Bring a piece of the block's rows into registers."""
        builder = context.builder
        matrix, tile = self._output.place(context)
        firsts = self._output.find_firsts(context, tile)
        start = builder.mul(piece, word(PIECE))
        cell = self._ahead
        for factor, cut in enumerate(self._factors):
            for turn in range(self._loads[factor]):
                line, vector = self._assign(context, turn)
                row = builder.add(firsts[factor], line)
                is_there = builder.icmp_unsigned("<", row, word(cut.rows))
                row = builder.select(is_there, row, word(cut.rows - 1))
                row = builder.add(builder.mul(matrix, word(cut.rows)), row)
                place = builder.add(builder.mul(row, word(cut.padded)), start)
                place = builder.add(place, builder.mul(vector, word(_VECTOR_BYTES)))
                address = builder.add(context.parameters[2 + factor], place)
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
            for turn in range(self._loads[factor]):
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

    def _list_elements(self, context: Context) -> Iterator[Element]:
        """Yield the thread's elements."""
        builder, tile = context.builder, self._tile
        group, place, warp = self._get_lane(context)
        firsts = [builder.mul(x, word(n)) for x, n in zip(warp, tile.of_warp, strict=True)]
        size = tile.instruction
        for r, c, cell in product(*map(range, (*tile.own, size.cells[2]))):
            row = builder.add(group, word(r * size.rows + 8 * (cell // 2)))
            column = builder.add(builder.mul(place, word(2)), word(c * size.columns + cell % 2))
            at = (builder.add(*pair) for pair in zip(firsts, (row, column), strict=True))
            yield Element(self._sum(r, c) + cell, *at)

    def end(self, context: Context) -> None:
        """Store what is left of the sums by the modulus."""
        self._output.store(context, self._list_elements(context), context.parameters[0])
