"""The kernel of rows between two products: attention, whose scores and weights never leave a block.

A block has some rows of one matrix, whole. It multiplies them by all columns, part by part, and
keeps what comes out in shared memory, where the region's passes read it as `regions/rows.py` has
them: each lane of a fold is one chain in one thread, in order. What the last product folds is
stored there, too, in the type of its factors, and multiplied part by part in ascending order of its
steps. So each element is the chain, the fold or the function that it would be in kernels apart.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cuda.copies import Copies
from moot.offchain.backends.cuda.elements import ravel, write
from moot.offchain.backends.cuda.joined.form import FLOAT_BYTES, STAGES, Area, Joined
from moot.offchain.backends.cuda.joined.multiplying import (
    Multiplying,
    find_element,
    find_part,
    when,
)
from moot.offchain.backends.cuda.kernel import (
    COPIED_BYTES,
    Context,
    Copy,
    Kernel,
    Loop,
    Phase,
    Products,
    word,
)
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.regions.rows import RowThread, compute_columns, compute_rows
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import FLOAT

Pass = Callable[[RowThread, int], None]
"""Writes a pass of a thread of a row, given the pass's number."""

Make = Callable[[Joined, Sequence[Copies]], Multiplying]
"""(form, copies of the factors) -> the writer of what multiplies."""

_VECTOR = ir.IntType(8 * COPIED_BYTES)


def make_kernel(form: Joined, last: Matrices | None, make: Make) -> Kernel:
    """Return the kernel, of a block for each `side` rows.

    Parameters are those of the region, the addresses of the first product's factors, of the last
    one's second factor and of its output if there is one, and the numbers of turns.
    """
    writer = _Writer(form, last, make)
    passes: list[Phase] = []
    for stage, this in enumerate(form.layout.plan.passes):
        if this.folded or this.written:
            passes.append(partial(writer.compute, compute_columns, stage))
        if this.row_values:
            passes.append(partial(writer.compute, compute_rows, stage))
    steps: list[Phase | Loop] = [writer.begin, writer.make_loop(0, writer.keep_scores)]
    if form.last is None:
        steps += passes
    else:
        *_, turns = form.turns
        loops = [writer.make_loop(1, writer.follow)] if turns else []
        rest = [writer.multiplying.rest] if writer.multiplying.rest else []
        steps += [writer.turn_over, *passes, writer.begin_last, *loops, *rest, writer.end]
    return Kernel(
        "multiply_rows_between",
        writer.turns + len(form.turns),
        tuple(steps),
        form.threads,
        form.shared_bytes,
        writer.multiplying.cells,
        groups=STAGES,
        copies=writer.copies,
    )


class _BlockRow(RowThread):
    """A thread of one of a block's rows, whose scores and weights are in shared memory."""

    def __init__(self, context: Context, form: Joined, number: ir.Value) -> None:
        layout = form.layout
        super().__init__(context, form.region, layout, form.side // layout.rows_a_block, number)
        self._joined = form

    def _find_area(self, index: int) -> Area | None:
        """Return the area of shared memory that has a value; None where the row keeps it."""
        if index == self._joined.middle:
            return self._joined.weights_area
        return Area.SCORES if index in self._joined.overlaid else None

    def _find_own(self, area: Area, index: int, number: ir.Value) -> ir.Value:
        """Return where an element of a value is in an area of shared memory."""
        builder, joined = self.context.builder, self._joined
        row = builder.mul(self.inner, word(joined.pitches[area]))
        start = builder.add(row, word(joined.places[area]))
        width = self.form.region.values[index].dtype.width
        return builder.add(start, builder.mul(number, word(width)))

    def _load_own(self, area: Area, index: int, number: ir.Value) -> ir.Value:
        dtype = self.form.region.values[index].dtype
        kind = ir.VectorType(emit.STORED[dtype], 1)
        stored = self.context.load_shared(kind, self._find_own(area, index, number))
        return emit.from_stored(self.context.builder, dtype, stored)

    def find_given(self, index: int, number: ir.Value) -> ir.Value | None:
        """Return a score."""
        return self._load_own(Area.SCORES, index, number) if self._joined.is_score(index) else None

    def keep(self, index: int, value: ir.Value, number: ir.Value) -> None:
        """Store an element, a weight where the last product reads it."""
        area, context = self._find_area(index), self.context
        if area is not None:
            dtype = self.form.region.values[index].dtype
            stored = emit.to_stored(context.builder, dtype, value)
            context.store_shared(stored, self._find_own(area, index, number))
        if index != self._joined.middle or self._joined.is_stored:
            super().keep(index, value, number)

    def recall(self, index: int, number: ir.Value) -> ir.Value:
        """Return an element that was kept."""
        area = self._find_area(index)
        if area is None:
            return super().recall(index, number)
        return self._load_own(area, index, number)


class _Writer:
    """Writes the phases of the kernel."""

    def __init__(self, form: Joined, last: Matrices | None, make: Make) -> None:
        self._form, self._last = form, last
        region = form.region
        self.first_parameter = len(region.accesses) + len(region.region.stores)
        rows = [*form.first, *(form.last or ())[1:]]
        self.turns = self.first_parameter + len(rows) + (form.last is not None)
        parts = (form.side, form.steps), *form.product.list_parts(form)
        self._factors = [
            Copies(each, *part, form.threads)
            for each, part in zip(rows, parts, strict=False)
            if each is not None
        ]
        self.copies = max(copies.count for copies in self._factors[1:])
        self.multiplying = make(form, self._factors)

    def get_turns(self, which: int) -> int:
        """Return the parameter that says how often the loop of a product turns."""
        return self.turns + min(which, len(self._form.turns) - 1)

    def make_loop(self, which: int, after: Phase) -> Loop:
        """Return the loop of a product: a part is taken up and multiplied, and what is after.

        All of a turn is one phase where threads multiply by themselves.
        """
        before, multiply = partial(self.advance, which), self.multiplying.multiply(which)
        if isinstance(multiply, Products):
            return Loop(self.get_turns(which), (before, multiply, after))

        def turn(context: Context) -> None:
            for phase in (before, multiply, after):
                phase(context)

        return Loop(self.get_turns(which), (turn,))

    def _find_rows(self, context: Context) -> tuple[ir.Value, ir.Value]:
        """Return the block's matrix, and its first row there."""
        builder = context.builder
        row = builder.mul(context.block, word(self._form.side))
        rows = word(self._form.rows)
        return builder.udiv(row, rows), builder.urem(row, rows)

    def _ask(self, context: Context, which: int, part: ir.Value) -> None:
        """Begin to copy a part of columns, or of the last product's steps, the last for later."""
        builder, form, copies = context.builder, self._form, self._factors[1 + which]
        last = context.parameters[self.get_turns(which)]
        if which == 0 or self.multiplying.rest is None:
            last = builder.sub(last, word(1))
        asked = vectors.minimum(builder, part, last)
        line, step = self.multiplying.locate(context, which, asked)
        batch, _ = self._find_rows(context)
        at = batch, word(0) if line is None else line, step
        start, pitch = find_part(form, context, part), form.get_pitch(copies.length)
        place = partial(find_element, form, context, start, pitch)
        address = context.parameters[self.first_parameter + 1 + which]
        found: list[Copy] = copies.make(context, at, address, place)
        found += found[-1:] * (self.copies - len(found))
        context.begin_copies(found, builder.urem(part, word(STAGES)))

    def begin(self, context: Context) -> None:
        """Bring the block's rows, and the first columns."""
        builder, form, (queries, *_) = context.builder, self._form, self._factors
        self._ask(context, 0, word(0))
        batch, row = self._find_rows(context)
        start, pitch = word(form.places[Area.ROWS]), form.pitches[Area.ROWS]
        place = partial(find_element, form, context, start, pitch)
        address = context.parameters[self.first_parameter]
        for copy in queries.make(context, (batch, row, word(0)), address, place):
            vector = context.load(_VECTOR, copy.address)
            if copy.is_there is not None:
                vector = builder.select(copy.is_there, vector, _VECTOR(0))
            context.store_shared(vector, copy.offset)
        context.end_copies(word(0), 0)

    def advance(self, which: int, context: Context) -> None:
        """Take up a part, and ask for the next one."""
        self.multiplying.take_up(context, which)
        self._ask(context, which, context.builder.add(context.turn, word(1)))

    def keep_scores(self, context: Context) -> None:
        """Store a part's scores, and wait for the next columns."""
        builder, form = context.builder, self._form
        first, _ = self.multiplying.locate(context, 0, context.turn)
        with when(builder, self.multiplying.is_whole(context)):
            for cell, row, column, is_there in self.multiplying.list_sums(context, 0):
                at = builder.add(first, column)
                value = vectors.splat(builder, context.get_cell(cell, FLOAT), 1)
                stored = emit.to_stored(builder, DType.FLOAT32, value)
                line = builder.mul(row, word(form.pitches[Area.SCORES]))
                line = builder.add(line, word(form.places[Area.SCORES]))
                place = builder.add(line, builder.mul(at, word(FLOAT_BYTES)))
                with when(builder, is_there):
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
            start, pitch = word(form.places[form.weights_area]), form.pitches[form.weights_area]
            place = find_element(form, context, start, pitch, row, at)
            context.store_shared(ir.IntType(8 * form.product.dtype.width)(0), place)

    def compute(self, compute: Pass, stage: int, context: Context) -> None:
        """Write a pass of the region, over some of the rows after the other."""
        builder, form = context.builder, self._form

        def turn(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            compute(_BlockRow(context, form, number), stage)
            return []

        vectors.repeat(builder, word(form.side // form.layout.rows_a_block), [], turn)

    def begin_last(self, context: Context) -> None:
        """Set the last product's sums to their initial value, and wait for its first steps."""
        self.multiplying.start(context, 1)
        context.end_copies(word(0), 0)

    def end(self, context: Context) -> None:
        """Store the output."""
        assert self._last is not None
        builder, node = context.builder, self._last.node
        batch, first = self._find_rows(context)
        for cell, row, column, is_there in self.multiplying.list_sums(context, 1):
            with when(builder, is_there):
                at = builder.add(first, row)
                variables = self._last.find_variables(context, batch, at, column)
                linear = ravel(context, (it.value for it in variables), node.shape)
                value = vectors.splat(builder, context.get_cell(cell), 1)
                address = context.parameters[self.first_parameter + 3]
                write(context, node.dtype, value, address, linear)


def count_blocks(form: Joined) -> int:
    """Return the number of blocks."""
    return prod(form.region.region.rows) // form.side
