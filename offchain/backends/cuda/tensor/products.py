"""Products of bfloat16 on tensor cores: a block has a tile of the output, from the initial values.

An element is one chain of blocks of products in ascending order, in the accumulator of a matrix
instruction; steps are never split. Rows of both factors lie in shared memory for some steps at a
time, twice: while one tile is multiplied, the next is stored, and the one behind it is on its way
to registers. Behind the last step of a row are zeros, in both factors, which change nothing.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product
from math import prod

from llvmlite import ir

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.elements import Variable, read, write
from moot.offchain.backends.cuda.kernel import (
    WARP,
    Context,
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
_VECTOR = ir.IntType(8 * WIDTH * VECTOR)
_VECTOR_CELLS = _VECTOR.width // INDEX.width

_MOST_BAND = 16
"""Tiles of one column of tiles that follow each other, so that its factor is read once for them."""


def make_kernel(matrices: Matrices, rows: tuple[Rows, Rows], tile: Tile, block: Block) -> Kernel:
    """Return the kernel of a contraction with a positive number of elements and of fold steps.

    Parameters are the addresses of the output, of the tensor of the initial values, and of both
    factors' rows, and the number of tiles of steps.
    """
    writer = _Writer(matrices, rows, tile)
    products = Products(make_instruction(block), writer.places)
    steps = (writer.begin, Loop(_TURNS, (writer.advance, products)), writer.end)
    shared = 2 * writer.buffer_bytes
    return Kernel("multiply_blocks", _PARAMETERS, steps, tile.threads, shared, writer.cells)


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
        self._ahead = first + second + tile.own[0] * tile.own[1] * counts[2]
        self.cells = self._ahead + _VECTOR_CELLS * sum(self._loads)
        self.places = tuple(
            (self._cell(0, r, d), self._cell(1, c, d), self._sum(r, c))
            for d, r, c in product(range(self._deep), *map(range, tile.own))
        )

    @cached_property
    def _loads(self) -> Sequence[int]:
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
        """Set the sums to the initial values, share the first tile, and ask for the second."""
        builder, node = context.builder, self._matrices.node
        self._look_ahead(context, word(0))
        self._share(context, word(0))
        self._look_ahead(context, self._clamp(context, word(1)))
        nothing = [Variable(word(0), 0, 0)] * len(node.fold_shape)

        def start(cell: int, variables: list[Variable], _: ir.Value) -> None:
            init = node.operands[0]
            value = read(context, init, [*variables, *nothing], context.parameters[1])
            context.set_cell(cell, builder.extract_element(value, INDEX(0)))

        self._each(context, start)

    def _clamp(self, context: Context, turn: ir.Value) -> ir.Value:
        """Return a turn, or the last one for those behind it."""
        builder = context.builder
        return vectors.minimum(builder, turn, builder.sub(context.parameters[_TURNS], word(1)))

    def advance(self, context: Context) -> None:
        """Share the next tile, ask for the one behind it, and take up this one's factors."""
        builder = context.builder
        following = builder.add(context.turn, word(1))
        now, other = (
            builder.mul(builder.and_(x, word(1)), word(self.buffer_bytes))
            for x in (context.turn, following)
        )
        self._share(context, other)
        self._look_ahead(context, self._clamp(context, builder.add(following, word(1))))
        self._fetch(context, now)

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

    def _list_vectors(self) -> list[tuple[int, int, int]]:
        """Return the factor, the turn and the first cell of each vector that a thread brings."""
        pairs = [(axis, turn) for axis in (0, 1) for turn in range(self._loads[axis])]
        return [(*pair, self._ahead + _VECTOR_CELLS * n) for n, pair in enumerate(pairs)]

    def _look_ahead(self, context: Context, number: ir.Value) -> None:
        """Bring a tile of steps into registers."""
        builder, tile = context.builder, self._tile
        batch, firsts = self._place(context)
        for axis, turn, cell in self._list_vectors():
            rows = self._rows[axis]
            line, step = self._assign(context, turn, axis)
            last = rows.count - 1
            if rows.is_turned:
                line, step, last = step, line, rows.count - VECTOR
            row = builder.add(firsts[axis], line)
            if rows.count % tile.sides[axis]:
                row = vectors.minimum(builder, row, word(last))
            step = builder.add(builder.mul(number, word(tile.depth)), step)
            is_there = None
            if self._ends[axis] % tile.depth:
                is_there = builder.icmp_unsigned("<", step, word(self._ends[axis]))
                step = builder.select(is_there, step, word(0))
            element = rows.locate(context, batch, row, step)
            place = builder.add(context.parameters[2 + axis], builder.mul(element, word(WIDTH)))
            found = context.load(_VECTOR, place, is_given=True)
            if is_there is not None:
                found = builder.select(is_there, found, _VECTOR(0))
            for part in range(_VECTOR_CELLS):
                shifted = builder.lshr(found, _VECTOR(INDEX.width * part))
                context.set_cell(cell + part, builder.trunc(shifted, INDEX))

    def _share(self, context: Context, buffer: ir.Value) -> None:
        """Store the tile that was brought into a buffer of shared memory."""
        builder = context.builder
        for axis, turn, cell in self._list_vectors():
            line, first = self._assign(context, turn, axis)
            whole: ir.Value = ir.Constant(_VECTOR, 0)
            for part in range(_VECTOR_CELLS):
                wide = builder.zext(context.get_cell(cell + part, INDEX), _VECTOR)
                whole = builder.or_(whole, builder.shl(wide, _VECTOR(INDEX.width * part)))
            place = self._locate(context, axis, line, first)
            context.store_shared(whole, builder.add(buffer, place))

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

        def finish(cell: int, variables: list[Variable], inside: ir.Value) -> None:
            with builder.if_then(inside):
                linear: ir.Value = word(0)
                for variable, size in zip(variables, node.shape, strict=True):
                    linear = builder.add(builder.mul(linear, word(size)), variable.value)
                value = vectors.splat(builder, context.get_cell(cell), 1)
                write(context, node.dtype, value, context.parameters[0], linear)

        self._each(context, finish)
