"""Products of bfloat16 on tensor cores: a block has a tile of the output, from the initial values.

An element is one chain of blocks of products in ascending order, in the accumulator of a matrix
instruction; steps are never split. Rows of both factors are in shared memory for some steps at a
time: while one part is multiplied, the next ones are on their way. Behind the last step of a row
are zeros, in both factors, which change nothing.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product
from math import prod

from llvmlite import ir

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.elements import Variable, ravel, read, write
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
from moot.offchain.backends.cuda.tensor.rows import Rows
from moot.offchain.backends.cuda.tensor.tiles import (
    COLUMNS,
    DEPTH,
    ROWS,
    VECTOR,
    WIDTH,
    Tile,
    get_pitch,
)
from moot.offchain.native import vectors
from moot.offchain.native.vectors import INDEX

_PARAMETERS, _TURNS = 5, 4

_MOST_BAND = 16
"""Tiles of one column of tiles that follow each other, so that its factor is read once for them."""


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
        copies=sum(writer.loads),
    )


def count_turns(matrices: Matrices, tile: Tile) -> int:
    """Return the number of tiles of steps."""
    return -(-matrices.node.fold_length // tile.depth)


def count_blocks(matrices: Matrices, tile: Tile) -> int:
    """Return the number of blocks that have the output."""
    rows, columns = _count_tiles(matrices, tile)
    return matrices.batches * rows * columns


def _count_tiles(matrices: Matrices, tile: Tile) -> tuple[int, int]:
    rows, columns = (-(-x // side) for x, side in zip(matrices.sides, tile.sides, strict=True))
    return rows, columns


_Each = Callable[[int, list[Variable], ir.Value], None]
"""(the cell of an element, its variables, whether it is inside)."""


class _Writer:
    """Writes the phases of the kernel; a thread's cells are numbered here."""

    def __init__(self, matrices: Matrices, rows: tuple[Rows, Rows], tile: Tile) -> None:
        self._matrices, self._rows, self._tile = matrices, rows, tile
        self._deep = tile.depth // DEPTH
        counts = self._counts = ROWS // COLUMNS * 2, 2, 4
        first, second = (own * self._deep * n for own, n in zip(tile.own, counts, strict=False))
        self._starts = 0, first, first + second
        self._lines = [
            tile.count_lines(axis, is_turned=each.is_turned) for axis, each in enumerate(rows)
        ]
        sizes = [tile.count_bytes(axis, is_turned=each.is_turned) for axis, each in enumerate(rows)]
        self._ends = [prod(each.steps.shape) for each in rows]
        self._behind, self.buffer_bytes = (0, sizes[0]), sum(sizes)
        self.cells = first + second + tile.own[0] * tile.own[1] * counts[2]
        self.places = tuple(
            (self._cell(0, r, d), self._cell(1, c, d), self._sum(r, c))
            for d, r, c in product(range(self._deep), *map(range, tile.own))
        )

    @cached_property
    def loads(self) -> Sequence[int]:
        """The vectors that a thread brings of each factor, at most."""
        threads = self._tile.threads
        return [-(-lines * (length // VECTOR) // threads) for lines, length in self._lines]

    def _cell(self, axis: int, number: int, depth: int) -> int:
        """The first cell of a part of a factor."""
        return self._starts[axis] + (number * self._deep + depth) * self._counts[axis]

    def _sum(self, row: int, column: int) -> int:
        """The first cell of a product's sum."""
        return self._starts[2] + (row * self._tile.own[1] + column) * self._counts[2]

    def _place(self, context: Context) -> tuple[ir.Value, list[ir.Value]]:
        """Return the block's batch, and the first row and column of its tile."""
        builder = context.builder
        rows, columns = _count_tiles(self._matrices, self._tile)
        height = max(n for n in range(1, _MOST_BAND + 1) if rows % n == 0)
        number, found = context.block, []
        for size in (height, columns, rows // height):
            found.append(builder.urem(number, word(size)))
            number = builder.udiv(number, word(size))
        row = builder.add(builder.mul(found[2], word(height)), found[0])
        tiles = zip((row, found[1]), self._tile.sides, strict=True)
        return number, [builder.mul(x, word(side)) for x, side in tiles]

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
        builder, node = context.builder, self._matrices.node
        nothing = [Variable(word(0), 0, 0)] * len(node.fold_shape)
        for part in range(self._tile.stages - 1):
            self._ask(context, word(part))

        def start(cell: int, variables: list[Variable], _: ir.Value) -> None:
            init = node.operands[0]
            value = read(context, init, [*variables, *nothing], context.parameters[1])
            context.set_cell(cell, builder.extract_element(value, INDEX(0)))

        self._each(context, start)
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

    def _assign(self, context: Context, turn: int, axis: int) -> tuple[ir.Value, ir.Value]:
        """Return the line of a factor's tile, and the first element of it, that a thread brings."""
        builder, threads = context.builder, self._tile.threads
        lines, length = self._lines[axis]
        number = builder.add(context.thread, word(turn * threads))
        each = length // VECTOR
        if (turn + 1) * threads > lines * each:  # the last vector is brought by several threads
            number = vectors.minimum(builder, number, word(lines * each - 1))
        first = builder.mul(builder.urem(number, word(each)), word(VECTOR))
        return builder.udiv(number, word(each)), first

    def _list_vectors(self) -> list[tuple[int, int]]:
        """Return the factor and the turn of each vector that a thread brings."""
        return [(axis, turn) for axis in (0, 1) for turn in range(self.loads[axis])]

    def _ask(self, context: Context, part: ir.Value) -> None:
        """Begin to copy a part to shared memory; instead of those behind the last one, that."""
        builder, tile = context.builder, self._tile
        batch, firsts = self._place(context)
        last_part = builder.sub(context.parameters[_TURNS], word(1))
        start = builder.mul(vectors.minimum(builder, part, last_part), word(tile.depth))
        buffer, copies = self._find_buffer(context, part), list[Copy]()
        for axis, turn in self._list_vectors():
            rows = self._rows[axis]
            line, first = self._assign(context, turn, axis)
            offset = builder.add(buffer, self._locate(context, axis, line, first))
            row, step = (first, line) if rows.is_turned else (line, first)
            row, step = builder.add(firsts[axis], row), builder.add(start, step)
            if rows.count % tile.sides[axis]:
                last = rows.count - (VECTOR if rows.is_turned else 1)
                row = vectors.minimum(builder, row, word(last))
            is_there = None
            if self._ends[axis] % tile.depth:
                is_there = builder.icmp_unsigned("<", step, word(self._ends[axis]))
                step = builder.select(is_there, step, word(0))
            element = rows.locate(context, batch, row, step)
            address = builder.mul(element, word(WIDTH))
            address = builder.add(context.parameters[2 + axis], address)
            copies.append(Copy(address, offset, is_there))
        ticket = builder.urem(part, word(tile.stages))
        context.begin_copies(copies, ticket)

    def _locate(self, context: Context, axis: int, line: ir.Value, at: ir.Value) -> ir.Value:
        """Return where an element of a factor's line is in a buffer."""
        builder, (_, length) = context.builder, self._lines[axis]
        start = builder.add(builder.mul(line, word(get_pitch(length))), word(self._behind[axis]))
        return builder.add(start, builder.mul(at, word(WIDTH)))

    def _fetch(self, context: Context, buffer: ir.Value) -> None:
        """Take up the warp's rows and columns of a buffer: four matrices of 8 by 8 at a time.

        Of the first factor these are the quarters of an instruction's rows, of the second the
        halves of the columns of two instructions, or of one where the last has no other.
        """
        _, _, firsts = self._get_lane(context)
        for axis, depth in product((0, 1), range(self._deep)):
            own = self._tile.own[axis]
            for number in range(0, own, 1 + axis):
                count = 4 if axis == 0 or number + 1 < own else 2

                def locate(
                    matrix: ir.Value,
                    row: ir.Value,
                    axis: int = axis,
                    start: int = number * (ROWS, COLUMNS)[axis],
                    depth: int = depth,
                ) -> ir.Value:
                    builder = context.builder
                    low, high = (f(matrix, word(2)) for f in (builder.urem, builder.udiv))
                    down, along = (low, high) if axis == 0 else (high, low)
                    line = builder.add(firsts[axis], word(start))
                    line = builder.add(line, builder.mul(down, word(COLUMNS)))
                    step = builder.add(builder.mul(along, word(VECTOR)), word(depth * DEPTH))
                    if self._rows[axis].is_turned:
                        line, step = builder.add(step, row), line
                    else:
                        line = builder.add(line, row)
                    return builder.add(buffer, self._locate(context, axis, line, step))

                is_turned = self._rows[axis].is_turned
                found = context.load_matrices(count, locate, is_turned=is_turned)
                cells = self._counts[axis]
                for place, value in enumerate(found):
                    cell = self._cell(axis, number + place // cells, depth) + place % cells
                    context.set_cell(cell, value)

    def _each(self, context: Context, body: _Each) -> None:
        """Write what is done for each of the thread's elements."""
        builder, tile = context.builder, self._tile
        batch, starts = self._place(context)
        group, place, firsts = self._get_lane(context)
        starts = [builder.add(*pair) for pair in zip(starts, firsts, strict=True)]
        for r, c, cell in product(*map(range, (*tile.own, self._counts[2]))):
            row = builder.add(group, word(r * ROWS + COLUMNS * (cell // 2)))
            column = builder.add(builder.mul(place, word(2)), word(c * COLUMNS + cell % 2))
            at, checks = [], []
            for axis, number in enumerate((row, column)):
                last = word(self._matrices.sides[axis] - 1)
                full = builder.add(starts[axis], number)
                checks.append(builder.icmp_unsigned("<=", full, last))
                at.append(vectors.minimum(builder, full, last))
            variables = self._matrices.find_variables(context, batch, *at)
            body(self._sum(r, c) + cell, variables, builder.and_(*checks))

    def end(self, context: Context) -> None:
        """Store the thread's elements that are inside, every NaN as the canonical one."""
        builder, node = context.builder, self._matrices.node
        last = builder.add(context.parameters[_TURNS], word(self._tile.stages - 2))
        context.end_copies(builder.urem(last, word(self._tile.stages)), 0)

        def finish(cell: int, variables: list[Variable], inside: ir.Value) -> None:
            with builder.if_then(inside):
                linear = ravel(context, (it.value for it in variables), node.shape)
                value = vectors.splat(builder, context.get_cell(cell), 1)
                write(context, node.dtype, value, context.parameters[0], linear)

        self._each(context, finish)
