"""The kernel of rows between two products: attention, whose scores and weights never leave a block.

A block has 16 or 32 rows of one matrix, whole. It multiplies them by all columns, part by part, and
keeps what comes out in shared memory, where the region's passes read it as `regions/rows.py` has
them: each lane of a fold is one chain in one thread, in order. What the last product folds is
stored there, too, in bfloat16, and multiplied part by part in ascending order of its steps. So each
element is the chain, the fold or the function that it would be in kernels apart.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from math import prod

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.elements import ravel, write
from moot.offchain.backends.cuda.kernel import (
    COPIED_BYTES,
    WARP,
    Context,
    Copy,
    Kernel,
    Loop,
    Phase,
    Products,
    make_instruction,
    word,
)
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.regions.rows import RowThread, compute_columns, compute_rows
from moot.offchain.backends.cuda.tensor.copies import Copies
from moot.offchain.backends.cuda.tensor.fragments import CELLS, Locate, fetch
from moot.offchain.backends.cuda.tensor.joined_form import (
    ACROSS,
    FLOAT_BYTES,
    PART,
    STAGES,
    Joined,
)
from moot.offchain.backends.cuda.tensor.tiles import COLUMNS, DEPTH, ROWS, WIDTH, get_pitch
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import FLOAT, INDEX

Pass = Callable[[RowThread, int], None]
"""Writes a pass of a thread of a row, given the pass's number."""

_VECTOR = ir.IntType(8 * COPIED_BYTES)


def make_kernel(form: Joined, last: Matrices, block: Block) -> Kernel:
    """Return the kernel, of a block for each `side` rows.

    Parameters are those of the region, the addresses of the first product's factors, of the last
    one's second factor and of the output, and the number of parts.
    """
    writer = _Writer(form, last)
    instruction = make_instruction(block)
    scores, sums = (Products(instruction, places) for places in writer.places)
    passes: list[Phase] = []
    for stage, this in enumerate(form.layout.plan.passes):
        if this.folded or this.written:
            passes.append(partial(writer.compute, compute_columns, stage))
        if this.row_values:
            passes.append(partial(writer.compute, compute_rows, stage))
    turns = writer.first_parameter + 4
    steps: tuple[Phase | Loop, ...] = (
        writer.begin,
        Loop(turns, (writer.advance_first, scores, writer.keep_scores)),
        writer.turn_over,
        *passes,
        writer.begin_last,
        Loop(turns, (writer.advance_last, sums, writer.follow)),
        writer.end,
    )
    return Kernel(
        "multiply_rows_between",
        turns + 1,
        steps,
        form.threads,
        form.shared_bytes,
        writer.cells,
        groups=STAGES,
        copies=writer.copies,
    )


class _BlockRow(RowThread):
    """A thread of one of a block's rows, whose scores and weights are in shared memory."""

    def __init__(self, context: Context, form: Joined, number: ir.Value) -> None:
        layout = form.layout
        super().__init__(context, form.region, layout, form.side // layout.rows_a_block, number)
        self._joined = form

    def _find_own(self, area: int, column: ir.Value, width: int) -> ir.Value:
        """Return where an element of the row is in an area of shared memory."""
        builder, joined = self.context.builder, self._joined
        row = builder.mul(self.inner, word(joined.pitches[area - 1]))
        start = builder.add(row, word(joined.places[area]))
        return builder.add(start, builder.mul(column, word(width)))

    def _load_own(self, dtype: DType, offset: ir.Value) -> ir.Value:
        stored = self.context.load_shared(ir.VectorType(emit.STORED[dtype], 1), offset)
        return emit.from_stored(self.context.builder, dtype, stored)

    def find_given(self, index: int, number: ir.Value) -> ir.Value | None:
        """Return a score."""
        if not self._joined.is_score(index):
            return None
        return self._load_own(DType.FLOAT32, self._find_own(2, number, FLOAT_BYTES))

    def keep(self, index: int, value: ir.Value, number: ir.Value) -> None:
        """Store an element, a weight where the last product reads it."""
        joined, context = self._joined, self.context
        if index == joined.middle:
            stored = emit.to_stored(context.builder, DType.BFLOAT16, value)
            context.store_shared(stored, self._find_own(3, number, WIDTH))
            if not joined.is_stored:
                return
        if index in joined.overlaid:
            stored = emit.to_stored(context.builder, DType.FLOAT32, value)
            context.store_shared(stored, self._find_own(2, number, FLOAT_BYTES))
        super().keep(index, value, number)

    def recall(self, index: int, number: ir.Value) -> ir.Value:
        """Return an element that was kept."""
        if index == self._joined.middle:
            return self._load_own(DType.BFLOAT16, self._find_own(3, number, WIDTH))
        if index in self._joined.overlaid:
            return self._load_own(DType.FLOAT32, self._find_own(2, number, FLOAT_BYTES))
        return super().recall(index, number)


class _Writer:
    """Writes the phases of the kernel; a thread's cells are numbered here."""

    def __init__(self, form: Joined, last: Matrices) -> None:
        self._form, self._last = form, last
        region = form.region
        self.first_parameter = len(region.accesses) + len(region.region.stores)
        queries, keys = form.first
        values = form.last[1]
        assert queries is not None
        assert keys is not None
        assert values is not None
        self._queries = Copies(queries, form.side, form.steps, form.threads)
        self._keys = Copies(keys, PART, form.steps, form.threads)
        self._values = Copies(values, form.width, PART, form.threads)
        self.copies = max(self._keys.count, self._values.count)
        self._turned = [each.is_turned for each in (queries, keys, values)]
        self._own = PART // (ACROSS * COLUMNS), form.width // (ACROSS * COLUMNS)
        self._deep = form.steps // DEPTH, PART // DEPTH
        sizes = [
            (CELLS[0] * deep, CELLS[1] * own * deep, CELLS[2] * own)
            for own, deep in zip(self._own, self._deep, strict=True)
        ]
        self._starts = [[sum(sizes[0]) * n + sum(sizes[n][:m]) for m in range(3)] for n in (0, 1)]
        self.cells = sum(map(sum, sizes))

    @property
    def places(self) -> Iterator[tuple[tuple[int, int, int], ...]]:
        """The cells of both products' instructions."""
        for n in (0, 1):
            first, second, third = self._starts[n]
            own, deep = self._own[n], self._deep[n]
            yield tuple(
                (first + CELLS[0] * d, second + CELLS[1] * (c * deep + d), third + CELLS[2] * c)
                for d, c in product(range(deep), range(own))
            )

    def _get_warp(self, context: Context) -> tuple[ir.Value, ir.Value]:
        """Return the first row of the thread's warp, and the warp's number across."""
        builder = context.builder
        warp = builder.udiv(context.thread, word(WARP))
        row = builder.mul(builder.udiv(warp, word(ACROSS)), word(ROWS))
        return row, builder.urem(warp, word(ACROSS))

    def _find_rows(self, context: Context) -> tuple[ir.Value, ir.Value]:
        """Return the block's matrix, and its first row there."""
        builder = context.builder
        row = builder.mul(context.block, word(self._form.side))
        rows = word(self._form.rows)
        return builder.udiv(row, rows), builder.urem(row, rows)

    def _locate(
        self, context: Context, start: ir.Value, pitch: int, line: ir.Value, at: ir.Value
    ) -> ir.Value:
        builder = context.builder
        row = builder.add(start, builder.mul(line, word(pitch)))
        return builder.add(row, builder.mul(at, word(WIDTH)))

    def _find_part(self, context: Context, part: ir.Value) -> ir.Value:
        builder = context.builder
        stage = builder.urem(part, word(STAGES))
        behind = builder.mul(stage, word(self._form.part_bytes))
        return builder.add(behind, word(self._form.places[4]))

    def _ask(self, context: Context, which: int, part: ir.Value) -> None:
        """Begin to copy a part of columns, or of the last product's steps, the last for later."""
        builder, copies = context.builder, (self._keys, self._values)[which]
        last = builder.sub(context.parameters[self.first_parameter + 4], word(1))
        first = builder.mul(vectors.minimum(builder, part, last), word(PART))
        batch, _ = self._find_rows(context)
        at = (batch, first, word(0)) if which == 0 else (batch, word(0), first)
        start, pitch = self._find_part(context, part), get_pitch(copies.length)
        place = partial(self._locate, context, start, pitch)
        address = context.parameters[self.first_parameter + 1 + which]
        found: list[Copy] = copies.make(context, at, address, place)
        found += found[-1:] * (self.copies - len(found))
        context.begin_copies(found, builder.urem(part, word(STAGES)))

    def begin(self, context: Context) -> None:
        """Bring the block's rows, and the first columns."""
        builder = context.builder
        self._ask(context, 0, word(0))
        batch, row = self._find_rows(context)
        start, pitch = word(self._form.places[1]), get_pitch(self._queries.length)
        place = partial(self._locate, context, start, pitch)
        address = context.parameters[self.first_parameter]
        for copy in self._queries.make(context, (batch, row, word(0)), address, place):
            vector = context.load(_VECTOR, copy.address)
            if copy.is_there is not None:
                vector = builder.select(copy.is_there, vector, _VECTOR(0))
            context.store_shared(vector, copy.offset)
        context.end_copies(word(0), 0)

    def advance_first(self, context: Context) -> None:
        """Take up rows and columns, and ask for the next columns."""
        builder = context.builder
        row, warp = self._get_warp(context)
        for axis, (copies, start) in enumerate(
            (
                (self._queries, word(self._form.places[1])),
                (self._keys, self._find_part(context, context.turn)),
            )
        ):
            line = row if axis == 0 else builder.mul(warp, word(self._own[0] * COLUMNS))
            locate = partial(self._locate, context, start, get_pitch(copies.length))
            self._fetch(context, 0, axis, line, locate, is_turned=self._turned[axis])
        self._start(context, 0)
        self._ask(context, 0, builder.add(context.turn, word(1)))

    def _fetch(
        self,
        context: Context,
        which: int,
        axis: int,
        line: ir.Value,
        locate: Locate,
        *,
        is_turned: bool,
    ) -> None:
        deep, start = self._deep[which], self._starts[which][axis]

        def number(place: int, depth: int) -> int:
            return start + CELLS[axis] * (place * deep + depth)

        counts = (1 if axis == 0 else self._own[which]), deep
        fetch(context, axis, counts, line, locate, number, is_turned=is_turned)

    def _start(self, context: Context, which: int) -> None:
        """Set the sums of a product to its initial value."""
        bits = self._form.starts[which]
        for cell in range(CELLS[2] * self._own[which]):
            context.set_cell(self._starts[which][2] + cell, INDEX(bits))

    def _list_sums(self, context: Context, which: int) -> Iterator[tuple[int, ir.Value, ir.Value]]:
        """Yield the cells of a product's sums, and their rows in the block and columns."""
        builder, own = context.builder, self._own[which]
        row, warp = self._get_warp(context)
        lane = builder.urem(context.thread, word(WARP))
        row = builder.add(row, builder.udiv(lane, word(4)))
        first = builder.mul(warp, word(own * COLUMNS))
        first = builder.add(first, builder.mul(builder.urem(lane, word(4)), word(2)))
        for place, cell in product(range(own), range(CELLS[2])):
            number = self._starts[which][2] + CELLS[2] * place + cell
            at = builder.add(row, word(COLUMNS * (cell // 2)))
            yield number, at, builder.add(first, word(COLUMNS * place + cell % 2))

    def keep_scores(self, context: Context) -> None:
        """Store a part's scores, and wait for the next columns."""
        builder, form = context.builder, self._form
        first = builder.mul(context.turn, word(PART))
        for cell, row, column in self._list_sums(context, 0):
            at = builder.add(first, column)
            value = vectors.splat(builder, context.get_cell(cell, FLOAT), 1)
            stored = emit.to_stored(builder, DType.FLOAT32, value)
            line = builder.add(builder.mul(row, word(form.pitches[1])), word(form.places[2]))
            place = builder.add(line, builder.mul(at, word(FLOAT_BYTES)))
            context.store_shared(stored, place)
        self.follow(context)

    def follow(self, context: Context) -> None:
        """Wait for the next part."""
        following = context.builder.add(context.turn, word(1))
        context.end_copies(context.builder.urem(following, word(STAGES)), 0)

    def turn_over(self, context: Context) -> None:
        """Ask for the last product's first steps, and put zeros behind the weights of each row."""
        builder, form = context.builder, self._form
        self._ask(context, 1, word(0))
        behind = form.padded - form.columns
        for turn in range(-(-behind * form.side // form.threads)):
            number = builder.add(context.thread, word(turn * form.threads))
            number = vectors.minimum(builder, number, word(behind * form.side - 1))
            row = builder.udiv(number, word(behind))
            at = builder.add(builder.urem(number, word(behind)), word(form.columns))
            place = self._locate(context, word(form.places[3]), form.pitches[2], row, at)
            context.store_shared(ir.IntType(8 * WIDTH)(0), place)

    def compute(self, compute: Pass, stage: int, context: Context) -> None:
        """Write a pass of the region, over some of the rows after the other."""
        builder, form = context.builder, self._form

        def turn(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            compute(_BlockRow(context, form, number), stage)
            return []

        vectors.repeat(builder, word(form.side // form.layout.rows_a_block), [], turn)

    def begin_last(self, context: Context) -> None:
        """Set the last product's sums to their initial value, and wait for its first steps."""
        self._start(context, 1)
        context.end_copies(word(0), 0)

    def advance_last(self, context: Context) -> None:
        """Take up weights and the last product's columns, and ask for the next steps."""
        builder, form = context.builder, self._form
        row, warp = self._get_warp(context)
        first = builder.mul(context.turn, word(PART * WIDTH))
        weights = builder.add(first, word(form.places[3]))
        locate = partial(self._locate, context, weights, form.pitches[2])
        self._fetch(context, 1, 0, row, locate, is_turned=False)
        line = builder.mul(warp, word(self._own[1] * COLUMNS))
        part = self._find_part(context, context.turn)
        locate = partial(self._locate, context, part, get_pitch(self._values.length))
        self._fetch(context, 1, 1, line, locate, is_turned=self._turned[2])
        self._ask(context, 1, builder.add(context.turn, word(1)))

    def end(self, context: Context) -> None:
        """Store the output."""
        builder, node = context.builder, self._last.node
        batch, first = self._find_rows(context)
        for cell, row, column in self._list_sums(context, 1):
            at = builder.add(first, row)
            variables = self._last.find_variables(context, batch, at, column)
            linear = ravel(context, (it.value for it in variables), node.shape)
            value = vectors.splat(builder, context.get_cell(cell), 1)
            write(context, node.dtype, value, context.parameters[self.first_parameter + 3], linear)


def count_blocks(form: Joined) -> int:
    """Return the number of blocks."""
    return prod(form.region.region.rows) // form.side
