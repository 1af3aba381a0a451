"""Products of bfloat16 on tensor cores: a block has a tile of the output, from the initial values.

An element is one chain of blocks of products in ascending order, in the accumulator of a matrix
instruction; steps are never split. Rows of both factors are in shared memory for some steps at a
time: while one part is multiplied, the next ones are on their way. Behind the last step of a row
are zeros, in both factors, which change nothing.
"""

from collections.abc import Iterator
from itertools import product

from llvmlite import ir

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.copies import Copies
from moot.offchain.backends.cuda.factors import Rows
from moot.offchain.backends.cuda.kernel import (
    WARP,
    Context,
    Copy,
    Kernel,
    Loop,
    Products,
    make_instruction,
    word,
)
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.tensor.fragments import CELLS, fetch
from moot.offchain.backends.cuda.tensor.outputs import Element, Output
from moot.offchain.backends.cuda.tensor.tiles import (
    COLUMNS,
    DEPTH,
    ROWS,
    WIDTH,
    Tile,
    get_pitch,
)
from moot.offchain.native import vectors

_PARAMETERS, _TURNS = 5, 4


def make_kernel(matrices: Matrices, rows: tuple[Rows, Rows], tile: Tile, block: Block) -> Kernel:
    """Return the kernel of a contraction with a positive number of elements and of fold steps.

    Parameters are the addresses of the output, of the tensor of the initial values, and of both
    factors' rows, and the number of tiles of steps.
    """
    writer = _Writer(matrices, rows, tile)
    products = Products(make_instruction(block), writer.places)
    return Kernel(
        "multiply_blocks",
        _PARAMETERS,
        (writer.begin, Loop(_TURNS, (writer.advance, products)), writer.end),
        tile.threads,
        tile.stages * writer.buffer_bytes,
        writer.cells,
        groups=tile.stages,
        copies=writer.copies,
    )


class _Writer:
    """Writes the phases of the kernel; a thread's cells are numbered here."""

    def __init__(self, matrices: Matrices, rows: tuple[Rows, Rows], tile: Tile) -> None:
        self._rows, self._tile = rows, tile
        self._output = Output(matrices, tile.sides)
        self._deep = tile.depth // DEPTH
        counts = self._counts = CELLS
        first, second = (own * self._deep * n for own, n in zip(tile.own, counts, strict=False))
        self._starts = 0, first, first + second
        self._copies = [
            Copies(each, side, tile.depth, tile.threads)
            for each, side in zip(rows, tile.sides, strict=True)
        ]
        sizes = [tile.count_bytes(axis, is_turned=each.is_turned) for axis, each in enumerate(rows)]
        self._behind, self.buffer_bytes = (0, sizes[0]), sum(sizes)
        self.cells = first + second + tile.own[0] * tile.own[1] * counts[2]
        self.places = tuple(
            (self._cell(0, r, d), self._cell(1, c, d), self._sum(r, c))
            for d, r, c in product(range(self._deep), *map(range, tile.own))
        )

    @property
    def copies(self) -> int:
        """The vectors that a thread brings of a part."""
        return sum(each.count for each in self._copies)

    def _cell(self, axis: int, number: int, depth: int) -> int:
        """The first cell of a part of a factor."""
        return self._starts[axis] + (number * self._deep + depth) * self._counts[axis]

    def _sum(self, row: int, column: int) -> int:
        """The first cell of a product's sum."""
        return self._starts[2] + (row * self._tile.own[1] + column) * self._counts[2]

    def _get_lane(self, context: Context) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
        """Return the thread's group in its warp, its place there, and the warp's first lines."""
        builder, tile = context.builder, self._tile
        lane, warp = (f(context.thread, word(WARP)) for f in (builder.urem, builder.udiv))
        across = word(tile.warps[1])
        places = builder.udiv(warp, across), builder.urem(warp, across)
        firsts = [builder.mul(x, word(n)) for x, n in zip(places, tile.of_warp, strict=True)]
        return builder.udiv(lane, word(4)), builder.urem(lane, word(4)), firsts

    def begin(self, context: Context) -> None:
        """Set the sums to the initial values, ask for the first parts, and wait for one of them."""
        for part in range(self._tile.stages - 1):
            self._ask(context, word(part))
        self._output.start(context, self._list_elements(context), context.parameters[1])
        context.end_copies(word(0), self._tile.stages - 2)

    def advance(self, context: Context) -> None:
        """Take up a part's factors, ask for a later one, and wait for the next one."""
        builder, stages = context.builder, self._tile.stages
        self._fetch(context, self._find_buffer(context, context.turn))
        self._ask(context, builder.add(context.turn, word(stages - 1)))
        following = builder.add(context.turn, word(1))
        context.end_copies(builder.urem(following, word(stages)), stages - 2)

    def _find_buffer(self, context: Context, part: ir.Value) -> ir.Value:
        """Return where in shared memory a part is."""
        stage = context.builder.urem(part, word(self._tile.stages))
        return context.builder.mul(stage, word(self.buffer_bytes))

    def _ask(self, context: Context, part: ir.Value) -> None:
        """Begin to copy a part to shared memory; instead of those behind the last one, that."""
        builder, tile = context.builder, self._tile
        batch, place = self._output.place(context)
        firsts = self._output.find_firsts(context, place)
        last_part = builder.sub(context.parameters[_TURNS], word(1))
        start = builder.mul(vectors.minimum(builder, part, last_part), word(tile.depth))
        buffer, copies = self._find_buffer(context, part), list[Copy]()
        for axis, each in enumerate(self._copies):

            def find(line: ir.Value, at: ir.Value, axis: int = axis) -> ir.Value:
                return builder.add(buffer, self._locate(context, axis, line, at))

            at = batch, firsts[axis], start
            copies += each.make(context, at, context.parameters[2 + axis], find)
        ticket = builder.urem(part, word(tile.stages))
        context.begin_copies(copies, ticket)

    def _locate(self, context: Context, axis: int, line: ir.Value, at: ir.Value) -> ir.Value:
        """Return where an element of a factor's line is in a buffer."""
        builder, length = context.builder, self._copies[axis].length
        start = builder.add(builder.mul(line, word(get_pitch(length))), word(self._behind[axis]))
        return builder.add(start, builder.mul(at, word(WIDTH)))

    def _fetch(self, context: Context, buffer: ir.Value) -> None:
        """Take up the warp's rows and columns of a buffer."""
        _, _, firsts = self._get_lane(context)
        for axis, each in enumerate(self._rows):

            def locate(line: ir.Value, at: ir.Value, axis: int = axis) -> ir.Value:
                return context.builder.add(buffer, self._locate(context, axis, line, at))

            def number(place: int, depth: int, axis: int = axis) -> int:
                return self._cell(axis, place, depth)

            counts = self._tile.own[axis], self._deep
            turned = each.is_turned
            fetch(context, axis, counts, firsts[axis], locate, number, is_turned=turned)

    def _list_elements(self, context: Context) -> Iterator[Element]:
        """Yield the thread's elements."""
        builder, tile = context.builder, self._tile
        group, place, firsts = self._get_lane(context)
        for r, c, cell in product(*map(range, (*tile.own, self._counts[2]))):
            row = builder.add(group, word(r * ROWS + COLUMNS * (cell // 2)))
            column = builder.add(builder.mul(place, word(2)), word(c * COLUMNS + cell % 2))
            at = (builder.add(*pair) for pair in zip(firsts, (row, column), strict=True))
            yield Element(self._sum(r, c) + cell, *at)

    def end(self, context: Context) -> None:
        """Store the thread's elements."""
        builder = context.builder
        last = builder.add(context.parameters[_TURNS], word(self._tile.stages - 2))
        context.end_copies(builder.urem(last, word(self._tile.stages)), 0)
        self._output.store(context, self._list_elements(context), context.parameters[0])
