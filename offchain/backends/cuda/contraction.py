"""Contractions in tiles: a block has a tile of the output, and each of its threads a few elements.

Each element is one fused multiply-add after the other, in ascending order, in a register. A tile of
both operands lies in shared memory for some steps at a time. At the edges of the output, what lies
beyond is computed too, from the last row or column, and not stored. Steps are never made up: the
last few have phases of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod

from llvmlite import ir

from offchain.backends.cuda.elements import Variable, read, unravel, write
from offchain.backends.cuda.kernel import Context, Kernel, Loop, Phase, word
from offchain.native import vectors
from offchain.native.vectors import FLOAT, INDEX
from offchain.planning.accesses import get_used
from offchain.programs.graph import Node, Operand

_LANE = ir.VectorType(FLOAT, 1)
_FLOAT_BYTES = 4
_TURNS = -2
"""The place of the parameter that says how often the loop of whole tiles runs."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Sizes of tiles.

    Attributes:
        threads: the threads along a side of a block.
        own: the elements of a thread along a side.
        depth: the steps that are in shared memory at a time.
    """

    threads: int = 16
    own: int = 8
    depth: int = 8

    @property
    def side(self) -> int:
        """The elements along a side of a block's tile."""
        return self.threads * self.own


LARGE, SMALL = Tiling(), Tiling(own=4)


@dataclass(frozen=True, slots=True)
class Split:
    """The variables of an output: those that only one factor depends on, and the others.

    Attributes:
        rows: those that the second factor does not depend on.
        columns: the others that the first does not depend on.
        batch: what is left.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    batch: tuple[int, ...]


def find_split(node: Node) -> Split:
    """Return which variables of a contraction are those of rows and of columns."""
    sizes, variables = node.shape + node.fold_shape, range(len(node.shape))
    first, second = (set(get_used(operand, sizes)) for operand in node.operands[1:])
    rows = tuple(v for v in variables if v not in second)
    columns = tuple(v for v in variables if v in second and v not in first)
    return Split(rows, columns, tuple(v for v in variables if v not in rows + columns))


def choose_tiling(node: Node) -> Tiling | None:
    """Return the tiles of a contraction, None where its rows or columns are too few for any."""
    split = find_split(node)
    sides = [prod(node.shape[v] for v in group) for group in (split.rows, split.columns)]
    if min(sides) < SMALL.threads:
        return None
    return LARGE if min(sides) >= LARGE.side else SMALL


def count_blocks(node: Node, tiling: Tiling) -> int:
    """Return the number of blocks that have the output."""
    split = find_split(node)
    rows, columns, batch = (
        prod(node.shape[v] for v in group) for group in (split.rows, split.columns, split.batch)
    )
    return batch * -(-rows // tiling.side) * -(-columns // tiling.side)


@cache
def make_kernel(node: Node, tiling: Tiling) -> Kernel:
    """Return the kernel of a contraction with a positive number of elements and of fold steps.

    Parameters are the addresses of the output, of the operands, the number of whole tiles of steps,
    and one that is not read.
    """
    writer = _Writer(node, tiling)
    whole, rest = divmod(node.fold_length, tiling.depth)
    steps: list[Phase | Loop] = [writer.begin]
    parameters = len(node.operands) + 3
    if whole:
        phases = (writer.load(tiling.depth, None), writer.multiply(tiling.depth))
        steps.append(Loop(parameters + _TURNS, phases))
    if rest:
        steps += [writer.load(rest, whole * tiling.depth), writer.multiply(rest)]
    steps.append(writer.end)
    return Kernel(
        "contract_tiles",
        parameters,
        tuple(steps),
        tiling.threads**2,
        2 * tiling.depth * tiling.side * _FLOAT_BYTES,
        tiling.own**2,
    )


class _Place:
    """Where a thread's tile is: the first row and column, and the variables of the batch."""

    def __init__(self, context: Context, node: Node, split: Split, side: int) -> None:
        builder = context.builder
        self.counts = [prod(node.shape[v] for v in group) for group in (split.rows, split.columns)]
        tiles = [-(-count // side) for count in self.counts]
        number = context.block
        column = builder.urem(number, word(tiles[1]))
        number = builder.udiv(number, word(tiles[1]))
        row = builder.urem(number, word(tiles[0]))
        batch = builder.udiv(number, word(tiles[0]))
        self.firsts = [builder.mul(x, word(side)) for x in (row, column)]
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
        last = word(self.counts[axis] - 1)
        is_there = context.builder.icmp_unsigned("<", number, last)
        return context.builder.select(is_there, number, last)


_Each = Callable[[int, list[Variable], ir.Value], None]
"""(number of an element of the thread, its variables, whether it is inside)."""


class _Writer:
    """Writes the phases of a contraction's kernel."""

    def __init__(self, node: Node, tiling: Tiling) -> None:
        self._node, self._tiling, self._split = node, tiling, find_split(node)

    def _place(self, context: Context) -> _Place:
        return _Place(context, self._node, self._split, self._tiling.side)

    def _own(self, context: Context, axis: int, number: int) -> ir.Value:
        """The place in the block's tile of one of the thread's rows or columns.

        Neighbouring threads have neighbouring columns.
        """
        builder, threads = context.builder, self._tiling.threads
        first = (builder.udiv if axis == 0 else builder.urem)(context.thread, word(threads))
        return builder.add(first, word(number * threads))

    def _each(
        self, context: Context, body: Callable[[int, list[Variable], ir.Value], None]
    ) -> None:
        """Write what is done for each of the thread's elements: number, variables, is inside."""
        builder, place, own = context.builder, self._place(context), self._tiling.own
        for row in range(own):
            for column in range(own):
                numbers = [
                    builder.add(place.firsts[axis], self._own(context, axis, number))
                    for axis, number in enumerate((row, column))
                ]
                clamped = [place.clamp(context, axis, n) for axis, n in enumerate(numbers)]
                checks = [
                    builder.icmp_unsigned("==", a, b) for a, b in zip(numbers, clamped, strict=True)
                ]
                variables = place.locate(context, *clamped)
                body(row * own + column, variables, builder.and_(*checks))

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
                linear: ir.Value = word(0)
                for variable, size in zip(variables, node.shape, strict=True):
                    linear = builder.add(builder.mul(linear, word(size)), variable.value)
                value = vectors.splat(builder, context.get_cell(number), 1)
                write(context, node.dtype, value, context.parameters[0], linear)

        self._each(context, finish)

    def load(self, depth: int, first: int | None) -> Phase:
        """Return the phase that brings so many steps of both factors, from `first` on."""

        def phase(context: Context) -> None:
            builder, place = context.builder, self._place(context)
            start = word(first) if first is not None else builder.mul(context.turn, word(depth))
            for axis, operand in enumerate(self._node.operands[1:]):
                self._load_factor(context, place, axis, operand, start, depth)

        return phase

    def _load_factor(
        self,
        context: Context,
        place: _Place,
        axis: int,
        operand: Operand,
        start: ir.Value,
        depth: int,
    ) -> None:
        builder, tiling, node = context.builder, self._tiling, self._node
        count, threads = depth * tiling.side, tiling.threads**2
        for turn in range(-(-count // threads)):
            number = builder.add(context.thread, word(turn * threads))
            with builder.if_then(builder.icmp_unsigned("<", number, word(count))):
                line, step = builder.udiv(number, word(depth)), builder.urem(number, word(depth))
                at = place.clamp(context, axis, builder.add(place.firsts[axis], line))
                sides = (at, None) if axis == 0 else (None, at)
                position = builder.add(start, step)
                folded = unravel(context, position, node.fold_shape)
                variables = [*place.locate(context, *sides), *folded]
                value = read(context, operand, variables, context.parameters[2 + axis])
                context.store_shared(value, self._shared(context, axis, step, line))

    def _shared(self, context: Context, axis: int, step: ir.Value, line: ir.Value) -> ir.Value:
        """Where the element of a factor is in shared memory."""
        builder, tiling = context.builder, self._tiling
        number = builder.add(builder.mul(step, word(tiling.side)), line)
        before = axis * tiling.depth * tiling.side
        return builder.mul(builder.add(number, word(before)), word(_FLOAT_BYTES))

    def multiply(self, depth: int) -> Phase:
        """Return the phase that folds so many steps into the thread's elements."""

        def phase(context: Context) -> None:
            builder, own = context.builder, self._tiling.own
            totals = [self._get_total(context, number) for number in range(own**2)]
            for step in range(depth):
                rows, columns = (
                    [self._fetch(context, axis, step, number) for number in range(own)]
                    for axis in (0, 1)
                )
                pairs = zip(product(rows, columns), totals, strict=True)
                totals = [vectors.call(builder, "llvm.fma", [a, b, c]) for (a, b), c in pairs]
            for number, total in enumerate(totals):
                context.set_cell(number, builder.extract_element(total, INDEX(0)))

        return phase

    def _get_total(self, context: Context, number: int) -> ir.Value:
        return vectors.splat(context.builder, context.get_cell(number), 1)

    def _fetch(self, context: Context, axis: int, step: int, number: int) -> ir.Value:
        line = self._own(context, axis, number)
        return context.load_shared(_LANE, self._shared(context, axis, word(step), line))


def list_parameters(node: Node, tiling: Tiling, addresses: Sequence[int]) -> list[int]:
    """Return the parameters of the kernel, given the addresses of the output and the operands."""
    return [*addresses, node.fold_length // tiling.depth, 0]
