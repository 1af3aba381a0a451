"""Contractions in tiles: a block has a tile of the output, and each of its threads a few elements.

Each element is one fused multiply-add after the other, in ascending order, in a register. Tiles of
both operands lie in shared memory for some steps at a time, twice: while one is multiplied, the
next is brought. At the edges of the output, what lies beyond is computed too, from the last row or
column, and not stored. Steps are never made up: the last few have phases of their own.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import gcd, prod

from llvmlite import ir

from moot.offchain.backends.cuda.elements import Variable, ravel, read, read_at, unravel, write
from moot.offchain.backends.cuda.kernel import WARP, Context, Kernel, Loop, Phase, word
from moot.offchain.backends.cuda.tiling import (
    VECTOR,
    WARP_SIDES,
    Split,
    Tiling,
    count_sides,
    count_tiles,
    find_split,
    reads_along_lines,
)
from moot.offchain.native import vectors
from moot.offchain.native.vectors import FLOAT, INDEX
from moot.offchain.planning.accesses import coalesce, find_strided
from moot.offchain.programs.graph import Node, Origin

_FLOAT_BYTES = 4
_TURNS = -2
"""The place of the parameter that says how often the loop of whole tiles runs."""

_MOST_BAND = 16
"""Tiles of one column of tiles that follow each other, so that its factor is read once for them."""


@cache
def make_kernel(node: Node, tiling: Tiling) -> Kernel:
    """Return the kernel of a contraction with a positive number of elements and of fold steps.

    Parameters are the addresses of the output, of the operands, the number of whole tiles of steps,
    and one that is not read.
    """
    writer = _Writer(node, tiling)
    whole, rest = divmod(node.fold_length, tiling.depth)
    parameters = len(node.operands) + 3
    steps: list[Phase | Loop] = [writer.begin]
    if whole:
        steps += [writer.bring(tiling.depth, 0), Loop(parameters + _TURNS, (writer.advance,))]
    if rest:
        steps += [writer.bring(rest, whole * tiling.depth), writer.multiply(rest)]
    steps.append(writer.end)
    return Kernel(
        "contract_tiles",
        parameters,
        tuple(steps),
        prod(tiling.threads),
        2 * writer.buffer_bytes,
        prod(tiling.own),
    )


class _Place:
    """Where a thread's tile is: the first row and column, and the variables of the batch."""

    def __init__(self, context: Context, node: Node, split: Split, tiling: Tiling) -> None:
        builder = context.builder
        self.counts = count_sides(node)[:2]
        self._sides = tiling.sides
        rows, columns, _ = count_tiles(node, tiling)
        height = max(n for n in range(1, _MOST_BAND + 1) if rows % n == 0)
        number = context.block
        row = builder.urem(number, word(height))
        number = builder.udiv(number, word(height))
        column = builder.urem(number, word(columns))
        number = builder.udiv(number, word(columns))
        band = builder.urem(number, word(rows // height))
        batch = builder.udiv(number, word(rows // height))
        row = builder.add(builder.mul(band, word(height)), row)
        self.firsts = [
            builder.mul(x, word(side)) for x, side in zip((row, column), tiling.sides, strict=True)
        ]
        self._groups = (split.rows, split.columns)
        self._shape = node.shape
        nothing = Variable(word(0), 0, 0)
        self._variables = [nothing] * len(node.shape)
        shape = [node.shape[v] for v in split.batch]
        for v, found in zip(split.batch, unravel(context, batch, shape), strict=True):
            self._variables[v] = found

    def locate(
        self, context: Context, row: ir.Value | None, column: ir.Value | None
    ) -> list[Variable]:
        """Return the output's variables at a row and a column; None where any will do."""
        found = list(self._variables)
        for group, number in zip(self._groups, (row, column), strict=True):
            if number is not None:
                shape = [self._shape[v] for v in group]
                for v, variable in zip(group, unravel(context, number, shape), strict=True):
                    found[v] = variable
        return found

    def clamp(self, context: Context, axis: int, number: ir.Value) -> ir.Value:
        """Return a row's or a column's number, the last one's for those beyond it."""
        if self.counts[axis] % self._sides[axis] == 0:
            return number
        last = word(self.counts[axis] - 1)
        is_there = context.builder.icmp_unsigned("<", number, last)
        return context.builder.select(is_there, number, last)


_Each = Callable[[int, list[Variable], ir.Value], None]
"""(number of an element of the thread, its variables, whether it is inside)."""

_Brought = list[tuple[ir.Value, ir.Value]]
"""Elements of factors, and where in a buffer they go."""


def find_thread(context: Context, tiling: Tiling) -> tuple[ir.Value, ir.Value]:
    """Return where a thread is in the block: its rows and its columns."""
    builder, across = context.builder, tiling.warps_across
    if across is None:
        columns = word(tiling.threads[1])
        return builder.udiv(context.thread, columns), builder.urem(context.thread, columns)
    warp, lane = (f(context.thread, word(WARP)) for f in (builder.udiv, builder.urem))
    places = []
    for split, size in zip((builder.udiv, builder.urem), WARP_SIDES, strict=True):
        first = builder.mul(split(warp, word(across)), word(size))
        places.append(builder.add(first, split(lane, word(WARP_SIDES[1]))))
    row, column = places
    return row, column


class _Writer:
    """Writes the phases of a contraction's kernel."""

    def __init__(self, node: Node, tiling: Tiling) -> None:
        self._node, self._tiling, self._split = node, tiling, find_split(node)
        self._group = [gcd(own, VECTOR) for own in tiling.own]
        sizes = node.shape + node.fold_shape
        self._strided = [
            None if operand.origin is Origin.IMMEDIATE else find_strided(operand.rows, sizes)
            for operand in node.operands[1:]
        ]
        self._along_lines = [reads_along_lines(node, axis) for axis in (0, 1)]
        self.buffer_bytes = tiling.depth * sum(tiling.pitches) * _FLOAT_BYTES

    def _place(self, context: Context) -> _Place:
        return _Place(context, self._node, self._split, self._tiling)

    def _own(self, context: Context, axis: int, number: int) -> ir.Value:
        """The place in the block's tile of one of the thread's rows or columns.

        Groups of them are neighbours, and so are the groups of neighbouring threads.
        """
        builder, group = context.builder, self._group[axis]
        turn, place = divmod(number, group)
        first = builder.mul(find_thread(context, self._tiling)[axis], word(group))
        return builder.add(first, word(turn * self._tiling.threads[axis] * group + place))

    def _each(self, context: Context, body: _Each) -> None:
        """Write what is done for each of the thread's elements: number, variables, is inside."""
        builder, place = context.builder, self._place(context)
        for number, own in enumerate(product(*map(range, self._tiling.own))):
            at = [
                builder.add(place.firsts[axis], self._own(context, axis, x))
                for axis, x in enumerate(own)
            ]
            clamped = [place.clamp(context, axis, x) for axis, x in enumerate(at)]
            checks = [builder.icmp_unsigned("==", *pair) for pair in zip(at, clamped, strict=True)]
            variables = place.locate(context, *clamped)
            body(number, variables, builder.and_(*checks))

    def begin(self, context: Context) -> None:
        """Set the thread's elements to their initial values."""
        nothing = [Variable(word(0), 0, 0)] * len(self._node.fold_shape)

        def start(number: int, variables: list[Variable], _: ir.Value) -> None:
            init = self._node.operands[0]
            value = read(context, init, [*variables, *nothing], context.parameters[1])
            context.set_cell(number, context.builder.extract_element(value, INDEX(0)))

        self._each(context, start)

    def end(self, context: Context) -> None:
        """Store the thread's elements that are inside."""
        builder, node = context.builder, self._node

        def finish(number: int, variables: list[Variable], inside: ir.Value) -> None:
            with builder.if_then(inside):
                linear = ravel(context, (it.value for it in variables), node.shape)
                value = vectors.splat(builder, context.get_cell(number), 1)
                write(context, node.dtype, value, context.parameters[0], linear)

        self._each(context, finish)

    def bring(self, depth: int, first: int) -> Phase:
        """Return the phase that brings so many steps of both factors, from `first` on."""

        def phase(context: Context) -> None:
            self._put(context, self._read(context, word(first), depth), word(0))

        return phase

    def advance(self, context: Context) -> None:
        """Multiply a tile of whole steps, and meanwhile bring the next into the other buffer.

        After the last one it is brought once more, and nobody reads it.
        """
        builder, depth = context.builder, self._tiling.depth
        following = builder.add(context.turn, word(1))
        is_last = builder.icmp_unsigned("==", following, context.parameters[_TURNS])
        turn = builder.select(is_last, context.turn, following)
        brought = self._read(context, builder.mul(turn, word(depth)), depth)
        now, other = (
            builder.mul(builder.and_(x, word(1)), word(self.buffer_bytes))
            for x in (context.turn, following)
        )
        self._multiply(context, depth, now)
        self._put(context, brought, other)

    def multiply(self, depth: int) -> Phase:
        """Return the phase that folds so many steps of the first buffer into the elements."""
        return lambda context: self._multiply(context, depth, word(0))

    def _read(self, context: Context, start: ir.Value, depth: int) -> _Brought:
        """Return the elements that a thread brings of so many steps of both factors."""
        place = self._place(context)
        return [
            pair
            for axis in (0, 1)
            for pair in self._read_factor(context, place, axis, start, depth)
        ]

    def _read_factor(
        self, context: Context, place: _Place, axis: int, start: ir.Value, depth: int
    ) -> _Brought:
        """Return those of one factor; neighbouring threads read neighbours in memory."""
        side, brought = self._tiling.sides[axis], list[tuple[ir.Value, ir.Value]]()
        for turn in range(-(-depth * side // prod(self._tiling.threads))):
            if self._along_lines[axis]:
                step, line = self._choose_element(context, turn, depth, side)
            else:
                line, step = self._choose_element(context, turn, side, depth)
            at = context.builder.add(place.firsts[axis], line)
            at = place.clamp(context, axis, at)
            value = self._read_element(context, place, axis, at, start, step)
            brought.append((value, self._locate(context, axis, step, line)))
        return brought

    def _choose_element(
        self, context: Context, turn: int, outer: int, inner: int
    ) -> tuple[ir.Value, ir.Value]:
        """Return which element of (outer, inner) a thread brings in a turn.

        What does not change from turn to turn is written so that it is computed once. Behind the
        last elements come some that are brought by several threads.
        """
        builder, threads = context.builder, prod(self._tiling.threads)
        whole, rest = divmod(turn * threads, inner)
        far, near = word(whole), builder.add(context.thread, word(rest))
        if rest + threads > inner:
            far = builder.add(builder.udiv(near, word(inner)), far)
            near = builder.urem(near, word(inner))
        if (turn + 1) * threads > outer * inner:
            far = vectors.minimum(builder, far, word(outer - 1))
        return far, near

    def _read_element(
        self,
        context: Context,
        place: _Place,
        axis: int,
        line: ir.Value,
        start: ir.Value,
        step: ir.Value,
    ) -> ir.Value:
        """Return an element of a factor; what does not change with `start` is computed apart."""
        builder, node = context.builder, self._node
        operand, address = node.operands[1 + axis], context.parameters[2 + axis]
        variables = place.locate(context, *((line, None) if axis == 0 else (None, line)))
        position, strided = builder.add(start, step), self._strided[axis]
        if strided is None:
            folded = unravel(context, position, node.fold_shape)
            return read(context, operand, [*variables, *folded], address)
        width, rank = operand.dtype.width, len(node.shape)
        fixed = _sum_up(builder, strided.offset, strided.strides[:rank], variables)
        shape, (strides,) = coalesce(node.fold_shape, [strided.strides[rank:]])
        moving = _sum_up(builder, 0, strides, unravel(context, position, shape))
        first = builder.add(address, builder.mul(fixed, word(width)))
        return read_at(context, operand.dtype, first, moving, is_given=True)

    def _put(self, context: Context, brought: _Brought, buffer: ir.Value) -> None:
        """Store what was brought into a buffer of shared memory."""
        for value, offset in brought:
            context.store_shared(value, context.builder.add(buffer, offset))

    def _locate(self, context: Context, axis: int, step: ir.Value, line: ir.Value) -> ir.Value:
        """Where the element of a factor is in a buffer."""
        builder, (first, second) = context.builder, self._tiling.pitches
        before, pitch = (0, first) if axis == 0 else (first * self._tiling.depth, second)
        number = builder.add(builder.mul(step, word(pitch)), line)
        return builder.mul(builder.add(number, word(before)), word(_FLOAT_BYTES))

    def _multiply(self, context: Context, depth: int, buffer: ir.Value) -> None:
        """Fold so many steps of a buffer into the thread's elements."""
        builder, own = context.builder, self._tiling.own
        totals = [context.get_cell(number) for number in range(prod(own))]
        for step in range(depth):
            rows, columns = (self._fetch(context, axis, step, buffer) for axis in (0, 1))
            pairs = zip(product(rows, columns), totals, strict=True)
            totals = [vectors.call(builder, "llvm.fma", [a, b, c]) for (a, b), c in pairs]
        for number, total in enumerate(totals):
            context.set_cell(number, total)

    def _fetch(
        self, context: Context, axis: int, step: int, buffer: ir.Value
    ) -> Sequence[ir.Value]:
        """Return a thread's rows or columns of a step."""
        builder, group, found = context.builder, self._group[axis], list[ir.Value]()
        for number in range(0, self._tiling.own[axis], group):
            offset = self._locate(context, axis, word(step), self._own(context, axis, number))
            offset = builder.add(buffer, offset)
            whole = context.load_shared(ir.IntType(8 * group * _FLOAT_BYTES), offset)
            floats = builder.bitcast(whole, ir.VectorType(FLOAT, group))
            found += [builder.extract_element(floats, INDEX(i)) for i in range(group)]
        return found


def _sum_up(
    builder: ir.IRBuilder, offset: int, strides: Sequence[int], variables: Sequence[Variable]
) -> ir.Value:
    """Return an offset and the sum of strides times variables."""
    found: ir.Value = word(offset)
    for stride, variable in zip(strides, variables, strict=True):
        if stride:
            found = builder.add(found, builder.mul(variable.value, word(stride)))
    return found


def list_parameters(node: Node, tiling: Tiling, addresses: Sequence[int]) -> list[int]:
    """Return the parameters of the kernel, given the addresses of the output and the operands."""
    return [*addresses, node.fold_length // tiling.depth, 0]
