"""Random programs of a product, a region on its rows and products of that, as in attention.

Masks leave tails of rows, columns are folded, too, and now and then an access is another one.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.accesses import Sizes
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from tests.fuzz.accesses import disguise

FLOAT32 = DType.FLOAT32
_ONE, _LEAST, _SIGN = 0x3F800000, 0xFF800000, 1 << 31
_SMALL = ((3, 5), (8, 17, 64))
_LARGE = ((48, 100, 128, 300), (64, 96, 128, 257, 512))
"""Rows and columns of the matrix."""

_ODD = 0.03
"""How often an access is not what it should be."""


def draw_joined_program(rng: Random, *, is_large: bool = False) -> Program:
    """Return a program of two to four products with a region between them."""
    return _Joined(rng, is_large=is_large).program()


def set_masks(rng: Random, program: Program, state: Sequence[Array]) -> None:
    """Make the masks of such a program's state masks, of tails that begin anywhere, mostly.

    What is the mask of a step is another one in the next.
    """
    for slot, array in zip(program.state, state, strict=True):
        if slot.name.startswith(("mask", "next")) and rng.random() < 0.7:
            rows, columns = array.shape
            array[...] = 0
            for row in range(rows):
                array[
                    row, rng.choice((0, 1, columns // 2, columns, rng.randrange(columns))) :
                ] = -np.inf


class _Joined:
    """A program while it is drawn; its state has the factors, a mask, and the results."""

    def __init__(self, rng: Random, *, is_large: bool) -> None:
        self.rng = rng
        self.batch: Sizes = rng.choice(((), (4,) if is_large else (2,)))
        rows, columns = _LARGE if is_large else _SMALL
        self.rows, self.columns = rng.choice(rows), rng.choice(columns)
        self.widths = (1, 16, 64, 100) if is_large else (1, 2, 4, 17)
        self.whole = (*self.batch, self.rows, self.columns)
        self.slots: list[Slot] = []
        self.nodes: list[Node] = []
        self.results: list[int] = []

    def access(
        self, origin: Origin, reference: int, shape: Sizes, variables: Sequence[int], value: int = 0
    ) -> Operand:
        """Return an access to a tensor whose axes are these variables, in some words."""
        rows = [Row(n, 0, ((v, 1),)) for n, v in zip(shape, variables, strict=True)]
        if self.rng.random() < _ODD and rows:
            place = self.rng.randrange(len(rows))
            rows[place] = replace(rows[place], offset=self.rng.choice((1, -1)))
        return Operand(
            origin, FLOAT32, reference, value, tuple(disguise(self.rng, row) for row in rows)
        )

    def slot(self, shape: Sizes, variables: Sequence[int], name: str = "s") -> Operand:
        """Return an access to a new slot of the state."""
        self.slots.append(Slot(f"{name}{len(self.slots)}", FLOAT32, shape))
        return self.access(Origin.STATE, len(self.slots) - 1, shape, variables)

    def add(self, node: Node) -> int:
        """Add an operator, and return its index."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def start(self) -> Operand:
        """Return what a sum starts from."""
        return immediate(FLOAT32, self.rng.choice((0, 0, 0, _SIGN, _ONE)))

    def multiply(self, shape: Sizes, steps: int, left: Operand, right: Operand) -> int:
        """Add a product of so many steps."""
        factors = [left, right]
        if self.rng.random() < 0.2:
            factors.reverse()
        operands = (self.start(), *factors)
        return self.add(Node(Kind.CONTRACT, Function.FMA, FLOAT32, shape, operands, (steps,)))

    def program(self) -> Program:
        """Draw the operators."""
        outer = range(len(self.batch))
        row, column, step = len(outer), len(outer) + 1, len(outer) + 2
        steps = self.rng.choice((1, 2, 3, 5))
        left = self.slot((*self.batch, self.rows, steps), (*outer, row, step))
        right = self.slot((*self.batch, steps, self.columns), (*outer, step, column))
        first = self.multiply(self.whole, steps, left, right)
        value = self.region(first)
        if self.rng.random() < 0.85:
            self.fold_rows(value)
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            self.fold_columns(value)
        if not self.results or self.rng.random() < 0.2:
            self.results.append(value)
        return self.finish()

    def whole_of(self, index: int) -> Operand:
        """Return an access to an operator on the matrix."""
        return self.access(Origin.NODE, index, self.whole, range(len(self.whole)))

    def map(self, function: Function, *operands: Operand) -> int:
        """Add a map on the matrix."""
        return self.add(Node(Kind.MAP, function, FLOAT32, self.whole, operands))

    def region(self, value: int) -> int:
        """Add maps, a mask, and folds of rows, and return the last value."""
        if self.rng.random() < 0.7:
            factor = immediate(FLOAT32, self.rng.choice((0x3E800000, _SIGN)))
            value = self.map(Function.MUL, self.whole_of(value), factor)
        if self.rng.random() < 0.7:
            axes = (len(self.whole) - 2, len(self.whole) - 1)
            mask = self.slot((self.rows, self.columns), axes, "mask")
            self.slots.append(Slot("next", FLOAT32, (self.rows, self.columns)))
            value = self.map(Function.ADD, self.whole_of(value), mask)
        for function, apply in (
            (Function.MAX, Function.SUB),
            (Function.ADD, self.rng.choice((Function.DIV, Function.MUL))),
        ):
            if self.rng.random() < 0.8:
                folded = self.fold(function, value)
                axes = range(len(self.whole) - 1)
                of_row = self.access(Origin.NODE, folded, self.whole[:-1], axes)
                value = self.map(apply, self.whole_of(value), of_row)
            if self.rng.random() < 0.3:
                other = self.rng.choice((Function.EXP, Function.NEG))
                value = self.map(other, self.whole_of(value))
        return value

    def fold(self, function: Function, value: int) -> int:
        """Add the fold of every row, whole or in lanes."""
        init = immediate(FLOAT32, _LEAST if function is Function.MAX else 0)
        shape, rank = self.whole[:-1], len(self.whole) - 1
        if self.columns % 4 or self.rng.random() < 0.5:
            operands = (init, self.whole_of(value))
            return self.add(Node(Kind.REDUCE, function, FLOAT32, shape, operands, (self.columns,)))
        source = self.whole_of(value)
        last = Row(self.columns, 0, ((rank, 1), (rank + 1, 4)))
        lanes = replace(source, value=init.value, rows=(*source.rows[:-1], last))
        inner = (*shape, 4)
        fold_shape = (self.columns // 4,)
        index = self.add(Node(Kind.REDUCE, function, FLOAT32, inner, (init, lanes), fold_shape))
        operand = self.access(Origin.NODE, index, inner, range(len(inner)))
        return self.add(Node(Kind.REDUCE, function, FLOAT32, shape, (init, operand), (4,)))

    def fold_rows(self, value: int) -> None:
        """Add the product that folds the rows of a value."""
        outer, width = range(len(self.batch)), self.rng.choice(self.widths)
        row, column, step = len(outer), len(outer) + 1, len(outer) + 2
        left = self.access(Origin.NODE, value, self.whole, (*outer, row, step))
        right = self.slot((*self.batch, self.columns, width), (*outer, step, column))
        shape = (*self.batch, self.rows, width)
        self.results.append(self.multiply(shape, self.columns, left, right))

    def fold_columns(self, value: int) -> None:
        """Add a product that folds the columns of a value."""
        outer, width = range(len(self.batch)), self.rng.choice(self.widths)
        row, column, step = len(outer), len(outer) + 1, len(outer) + 2
        left = self.access(Origin.NODE, value, self.whole, (*outer, step, row))
        right = self.slot((*self.batch, self.rows, width), (*outer, step, column))
        shape = (*self.batch, self.columns, width)
        self.results.append(self.multiply(shape, self.rows, left, right))

    def finish(self) -> Program:
        """Return the program: its factors stay, its results are in the state."""
        masks = [slot.name.startswith("mask") for slot in self.slots]
        sources = [
            (Origin.STATE, place + masks[place], slot.shape)
            for place, slot in enumerate(self.slots)
        ]
        for index in self.results:
            self.slots.append(Slot(f"s{len(self.slots)}", FLOAT32, self.nodes[index].shape))
            sources.append((Origin.NODE, index, self.nodes[index].shape))
        for origin, reference, shape in sources:
            rows = tuple(Row(n, 0, ((axis, 1),)) for axis, n in enumerate(shape))
            operand = Operand(origin, FLOAT32, reference, 0, rows)
            self.add(Node(Kind.SINK, Function.COPY, FLOAT32, shape, (operand,)))
        names = tuple(f"n{i}" for i in range(len(self.nodes)))
        return Program(tuple(self.slots), (), tuple(self.nodes), names, ("",) * len(names))
