"""Products of floats between which rows are, by threads: each element is one chain in a register.

A step is one fused multiply-add, in ascending order, as `contraction.py` has it. A thread has some
rows and some columns, and takes four steps of a factor's line from shared memory at once, or four
lines at one step where lines are steps. Columns come with some of their steps at a time, so that
many of them fit; steps are never made up, so the last few have a phase of their own.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from math import gcd, prod

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cuda.contraction import find_thread
from moot.offchain.backends.cuda.copies import Copies
from moot.offchain.backends.cuda.joined.form import FLOAT_BYTES, Area, Joined, Product
from moot.offchain.backends.cuda.joined.multiplying import (
    Multiplying,
    Sum,
    find_element,
    find_part,
    when,
)
from moot.offchain.backends.cuda.kernel import Context, Phase, word
from moot.offchain.backends.cuda.tiling import VECTOR, Tiling
from moot.offchain.native import vectors
from moot.offchain.native.vectors import FLOAT, INDEX

THREADS = 256
"""The threads of a block."""

_SCORES = 4, 64
"""Its threads along rows and columns of the first product."""

_SUMS = 4, 4
"""What a thread has of the last product, which has few elements in a block."""

_MOST_OWN = 8
"""The most columns of the first product that a thread has at a time."""

_MOST_PART_BYTES = 25 << 10
"""About what a part of a factor may take, of which there are two."""

_MOST_DEPTH = 64
"""The most steps of a part."""


class ByThreads(Product):
    """Products of floats by threads."""

    dtype = DType.FLOAT32
    vector = 1

    def count_threads(self, side: int) -> int:  # noqa: ARG002 - fewer rows are fewer for each thread
        """Return as many as every block has."""
        return THREADS

    def fits(self, form: Joined) -> bool:
        """Whether steps are whole vectors, and threads have as many rows."""
        return form.steps % VECTOR == form.side % max(_SCORES[0], _SUMS[0]) == 0

    def pad(self, columns: int) -> int:
        """Return the columns: there is nothing behind them."""
        return columns

    def list_parts(self, form: Joined) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return some columns with some of their steps, and steps of all columns."""
        scores, sums = (find_tiling(form, which) for which in (0, 1))
        return (scores.sides[1], scores.depth), (sums.sides[1], sums.depth)

    def count_turns(self, form: Joined) -> tuple[int, ...]:
        """Return the parts of all columns, and the whole ones of a last product's steps."""
        scores, sums = (find_tiling(form, which) for which in (0, 1))
        first = -(-form.columns // scores.sides[1]) * (form.steps // scores.depth)
        return (first,) if form.last is None else (first, form.columns // sums.depth)


BY_THREADS = ByThreads()


def find_tiling(form: Joined, which: int) -> Tiling:
    """Return the tile of a block: of the first product's part, or of the last product."""
    if which == 0:
        most = -(-form.columns // _SCORES[1])
        own = next((n for n in (1, 2, 4) if n >= most), _MOST_OWN)
        lines = own * _SCORES[1]
        return Tiling(_SCORES, (form.side // _SCORES[0], own), _find_depth(lines, form.steps))
    across = -(-form.width // _SUMS[1])
    return Tiling((form.side // _SUMS[0], across), _SUMS, _find_depth(across * _SUMS[1], 0))


def _find_depth(lines: int, steps: int) -> int:
    """Return the steps of a part: a part of so many lines fits, and all steps are whole parts."""
    depth = _MOST_DEPTH
    while depth > VECTOR and (
        steps % depth or lines * (depth + VECTOR) * FLOAT_BYTES > _MOST_PART_BYTES
    ):
        depth //= 2
    return depth


class OnThreads(Multiplying):
    """The writer of what multiplies; its arguments are those of the port."""

    def __init__(self, form: Joined, factors: Sequence[Copies]) -> None:
        super().__init__(form, factors)
        queries, *others = factors
        self._tilings = [find_tiling(form, which) for which in range(len(others))]
        is_turned = queries.is_turned, False
        self._turned = [(is_turned[n], copies.is_turned) for n, copies in enumerate(others)]
        self._pitches = [form.get_pitch(copies.length) for copies in others]
        self._chunks = form.steps // self._tilings[0].depth
        self._first_cells = 0, prod(self._tilings[0].own)
        self.cells = sum(prod(tiling.own) for tiling in self._tilings)
        whole, rest = divmod(form.columns, self._tilings[-1].depth)
        if rest and form.last is not None:
            self.rest = partial(self._multiply, 1, rest, word(whole))

    def locate(
        self, context: Context, which: int, part: ir.Value
    ) -> tuple[ir.Value | None, ir.Value]:
        """Return the first column and step of a part."""
        builder, (scores, *_) = context.builder, self._tilings
        if which == 1:
            return None, builder.mul(part, word(self._tilings[1].depth))
        first = builder.mul(builder.udiv(part, word(self._chunks)), word(scores.sides[1]))
        return first, builder.mul(self._find_chunk(context, part), word(scores.depth))

    def _find_chunk(self, context: Context, part: ir.Value) -> ir.Value:
        """Return which steps of its columns a part of the first product has."""
        return context.builder.urem(part, word(self._chunks))

    def _is_chunk(self, context: Context, number: int) -> ir.Value | None:
        if self._chunks == 1:
            return None
        chunk = self._find_chunk(context, context.turn)
        return context.builder.icmp_unsigned("==", chunk, word(number))

    def is_whole(self, context: Context) -> ir.Value | None:
        """Return whether these were the last steps of columns."""
        return self._is_chunk(context, self._chunks - 1)

    def start(self, context: Context, which: int) -> None:
        """Set the sums of a product to its initial value."""
        for cell in range(prod(self._tilings[which].own)):
            context.set_cell(self._first_cells[which] + cell, INDEX(self._form.starts[which]))

    def take_up(self, context: Context, which: int) -> None:
        """Begin the sums of columns with their first steps; all else is read when multiplied."""
        if which == 0:
            with when(context.builder, self._is_chunk(context, 0)):
                self.start(context, 0)

    def multiply(self, which: int) -> Phase:
        """Return the phase that folds the turn's part into the sums."""
        return lambda context: self._multiply(
            which, self._tilings[which].depth, context.turn, context
        )

    def _multiply(self, which: int, depth: int, part: ir.Value, context: Context) -> None:
        """Fold so many steps of a part into the sums, of the threads that have some."""
        with when(context.builder, self._is_busy(context, which)):
            first, own = self._first_cells[which], self._tilings[which].own
            totals = [context.get_cell(first + number) for number in range(prod(own))]
            for step in range(0, depth, VECTOR):
                rows, columns = (self._fetch(context, which, x, part, step) for x in (0, 1))
                for pair in [*zip(rows, columns, strict=True)][: depth - step]:
                    added = zip(product(*pair), totals, strict=True)
                    totals = [
                        vectors.call(context.builder, "llvm.fma", [a, b, c]) for (a, b), c in added
                    ]
            for number, total in enumerate(totals):
                context.set_cell(first + number, total)

    def _is_busy(self, context: Context, which: int) -> ir.Value | None:
        """Return whether the thread has elements of a product; None if all have."""
        busy = prod(self._tilings[which].threads)
        if busy == THREADS:
            return None
        return context.builder.icmp_unsigned("<", context.thread, word(busy))

    def _fetch(
        self, context: Context, which: int, axis: int, part: ir.Value, step: int
    ) -> list[list[ir.Value]]:
        """Return a thread's rows or columns of each of four steps of a part."""
        builder, form = context.builder, self._form
        if axis == 1:
            start, pitch, base = find_part(form, context, part), self._pitches[which], word(0)
        else:
            area = (Area.ROWS, form.weights_area)[which]
            start, pitch = word(form.places[area]), form.pitches[area]
            _, base = self.locate(context, which, part)
        at, own = builder.add(base, word(step)), self._tilings[which].own[axis]
        if not self._turned[which][axis]:
            lines = [
                self._load(context, start, pitch, self._own(context, which, axis, n), at)
                for n in range(own)
            ]
            return [list(values) for values in zip(*lines, strict=True)]
        group = gcd(own, VECTOR)
        found = []
        for ahead in range(VECTOR):
            line = builder.add(at, word(ahead))
            vectors_there = [
                self._load(context, start, pitch, line, self._own(context, which, axis, n), group)
                for n in range(0, own, group)
            ]
            found.append([value for vector in vectors_there for value in vector])
        return found

    def _load(
        self,
        context: Context,
        start: ir.Value,
        pitch: int,
        line: ir.Value,
        at: ir.Value,
        count: int = VECTOR,
    ) -> list[ir.Value]:
        """Return so many elements of a line."""
        builder, form = context.builder, self._form
        offset = find_element(form, context, start, pitch, line, at)
        whole = context.load_shared(ir.IntType(8 * FLOAT_BYTES * count), offset)
        floats = builder.bitcast(whole, ir.VectorType(FLOAT, count))
        return [builder.extract_element(floats, INDEX(place)) for place in range(count)]

    def _own(self, context: Context, which: int, axis: int, number: int) -> ir.Value:
        """Return the place in the block's tile of one of the thread's rows or columns.

        Where lines are steps, a vector's are neighbours; else those of neighbouring threads are, so
        that these read lines that begin in other banks.
        """
        builder, tiling = context.builder, self._tilings[which]
        place, threads = find_thread(context, tiling)[axis], tiling.threads[axis]
        group = gcd(tiling.own[axis], VECTOR) if self._turned[which][axis] else 1
        turn, inner = divmod(number, group)
        first = builder.mul(place, word(group))
        return builder.add(first, word(turn * threads * group + inner))

    def list_sums(self, context: Context, which: int) -> Iterator[Sum]:
        """Yield a thread's sums of a product."""
        builder, tiling = context.builder, self._tilings[which]
        is_busy = self._is_busy(context, which)
        for number, own in enumerate(product(*map(range, tiling.own))):
            row, column = (self._own(context, which, axis, n) for axis, n in enumerate(own))
            is_there = is_busy
            if which == 0 and self._form.columns % tiling.sides[1]:
                first, _ = self.locate(context, 0, context.turn)
                at = builder.add(first, column)
                is_there = builder.icmp_unsigned("<", at, word(self._form.columns))
            elif which == 1 and self._form.width % tiling.sides[1]:
                is_inside = builder.icmp_unsigned("<", column, word(self._form.width))
                is_there = is_inside if is_busy is None else builder.and_(is_busy, is_inside)
            yield Sum(self._first_cells[which] + number, row, column, is_there)
