"""Random programs that find the largest elements of rows, round by round, or almost do.

There may be more rounds than a row has columns, rows of one column and of rank 0, and a counter
that is in the state and becomes one only after some steps, or is an operator of the rounds.
"""

from collections.abc import Sequence
from math import prod
from random import Random

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.accesses import Sizes
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate

FLOAT32, INT64, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL
_LEAST, _NOWHERE = 0xFF800000, (1 << 64) - 1
_SMALL = (((1,), (2,), (2, 2), (3,), (), ()), (1, 2, 2, 3, 3, 4, 6))
_LARGE = (((64,), (500,), (3, 200)), (2, 3, 5, 64, 257, 1000))
"""Rows and columns of the matrix."""

_ODD = 0.04
"""How often a part of the rounds is not what it should be."""


def draw_rounds_program(rng: Random, *, is_large: bool = False) -> Program:
    """Return a program of one to six rounds on rows of one to six columns, or of many."""
    return _Rounds(rng, is_large=is_large).program()


def set_counters(rng: Random, program: Program, state: Sequence[Array]) -> None:
    """Make the counter of such a program's state a counter, mostly after the first step only."""
    for slot, array in zip(program.state, state, strict=True):
        is_counter = slot.name == "later" or (slot.name == "counter" and rng.random() < 0.3)
        if is_counter and rng.random() < 0.9:
            array[...] = np.arange(array.size)


class _Rounds:
    """A program while it is drawn.

    Its state has the tensor, the counter, what becomes the counter, and the positions.
    """

    def __init__(self, rng: Random, *, is_large: bool) -> None:
        self.rng = rng
        rows, columns = _LARGE if is_large else _SMALL
        outer: Sizes = rng.choice(rows)
        self.columns: int = rng.choice(columns)
        self.whole: Sizes = () if rng.random() < _ODD else (*outer, self.columns)
        self.rows: Sizes = (*self.whole[:-1], 1) if self.whole else ()
        self.line: Sizes = (self.columns,)
        self.nodes: list[Node] = []
        self.taken: list[int] = []
        self.marks: Operand | None = None

    def add(self, node: Node) -> int:
        """Add an operator, and return its index."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def read(self, index: int, dtype: DType, shape: Sizes) -> Operand:
        """Return an access to all of an operator."""
        rows = tuple(Row(size, 0, ((axis, 1),)) for axis, size in enumerate(shape))
        return Operand(Origin.NODE, dtype, index, 0, rows)

    def broadcast(self, index: int, dtype: DType) -> Operand:
        """Return an access to an operator of the rows on the whole matrix."""
        *outer, _ = self.read(index, dtype, self.rows).rows or (Row(1),)
        return Operand(Origin.NODE, dtype, index, 0, (*outer, Row(1)) if self.rows else ())

    def program(self) -> Program:
        """Draw the rounds; their number does not depend on how many columns there are."""
        copies = [
            (Slot("x", FLOAT32, self.whole), 0),
            (Slot("counter", INT64, self.line), 1),
            (Slot("later", INT64, self.line), 2),
        ]
        for slot, place in copies:
            rows = tuple(Row(size, 0, ((axis, 1),)) for axis, size in enumerate(slot.shape))
            operand = Operand(Origin.STATE, slot.dtype, place, 0, rows)
            self.add(Node(Kind.SOURCE, Function.COPY, slot.dtype, slot.shape, (operand,)))
        mask: int | None = None
        count = self.rng.choice((1, 2, 2, 3, 3, 4, 5, 6))
        for number in range(count):
            mask = self.round(mask, is_last=number == count - 1)
        if self.rng.random() < 0.5 and self.rows:
            self.join()
        slots = [slot for slot, _ in copies]
        sources = [0, 2, 2]
        for index in self.list_kept():
            node = self.nodes[index]
            slots.append(Slot(f"k{index}", node.dtype, node.shape))
            sources.append(index)
        for slot, index in zip(slots, sources, strict=True):
            operand = self.read(index, slot.dtype, slot.shape)
            self.add(Node(Kind.SINK, Function.COPY, slot.dtype, slot.shape, (operand,)))
        names = tuple(f"n{i}" for i in range(len(self.nodes)))
        return Program(tuple(slots), (), tuple(self.nodes), names, ("",) * len(names))

    def list_kept(self) -> list[int]:
        """Draw which operators' outputs are in the state: positions, and now and then others."""
        last = [i for i in range(3, len(self.nodes)) if self.nodes[i].kind is Kind.MOVE]
        odd = [i for i in range(3, len(self.nodes)) if self.rng.random() < _ODD / 4]
        return sorted({*(last or self.taken), *odd})

    def round(self, mask: int | None, *, is_last: bool) -> int | None:
        """Add a round, and return the index of the mask after it."""
        x = self.read(0, FLOAT32, self.whole)
        masked = immediate(BOOL, 0) if mask is None else self.read(mask, BOOL, self.whole)
        least = immediate(FLOAT32, _LEAST)
        left = self.map(Function.WHERE, FLOAT32, self.whole, masked, least, x)
        best = self.find(Function.ARGMAX, self.read(left, FLOAT32, self.whole))
        value = self.pick(left, best)
        is_least = self.map(
            Function.EQ, BOOL, self.rows, self.read(value, FLOAT32, self.rows), least
        )
        number = immediate(INT64, 0)
        if mask is not None:
            number = self.read(
                self.map(Function.CONVERT, INT64, self.whole, masked), INT64, self.whole
            )
        free = self.find(Function.ARGMIN, number)
        choices = [self.read(is_least, BOOL, self.rows)]
        choices += [self.read(i, INT64, self.rows) for i in (free, best)]
        taken = self.map(Function.WHERE, INT64, self.rows, *choices)
        self.taken.append(taken)
        if is_last:
            return None
        marks = self.marks or self.count(taken)
        self.marks = marks if self.rng.random() > _ODD else None
        now = self.map(Function.EQ, BOOL, self.whole, marks, self.broadcast(taken, INT64))
        return self.map(Function.OR, BOOL, self.whole, masked, self.read(now, BOOL, self.whole))

    def map(self, function: Function, dtype: DType, shape: Sizes, *operands: Operand) -> int:
        """Add a map, now and then of another function."""
        if self.rng.random() < _ODD / 8 and function is Function.OR:
            function = Function.AND
        return self.add(Node(Kind.MAP, function, dtype, shape, operands))

    def find(self, function: Function, operand: Operand) -> int:
        """Add an argmax or argmin of every row; that of a constant has no rows."""
        operands = (immediate(INT64, _NOWHERE), operand)
        fold_shape = self.whole[-1:] or (1,)
        found = Node(Kind.REDUCE, function, INT64, self.whole[:-1], operands, fold_shape)
        return self.add(found)

    def pick(self, left: int, best: int) -> int:
        """Add the gather of the element at a position of every row."""
        rank = len(self.rows)
        outer = [Row(size, 0, ((axis, 1),)) for axis, size in enumerate(self.whole[:-1])]
        rows = (*outer, Row(self.columns, 0, ((rank, 1),))) if self.whole else ()
        data = Operand(Origin.NODE, FLOAT32, left, 0, rows)
        index = self.read(best, INT64, self.rows)
        return self.add(Node(Kind.GATHER, Function.COPY, FLOAT32, self.rows, (data, index)))

    def count(self, taken: int) -> Operand:
        """Return an access to the counter on the columns: the state's, or positions instead."""
        axis = len(self.whole) - 1
        terms = ((axis, 1),) if self.whole else ()
        if prod(self.rows) >= self.columns and self.rng.random() < 0.15 and self.whole:
            row = Row(prod(self.rows), 0, terms)
            return Operand(Origin.NODE, INT64, taken, 0, (row,))
        return Operand(Origin.NODE, INT64, 1, 0, (Row(self.columns, 0, terms),))

    def join(self) -> None:
        """Put the positions of all rounds side by side."""
        count, axis = len(self.taken), len(self.rows) - 1
        shape = (*self.rows[:-1], count)
        operands = []
        for number, taken in enumerate(self.taken[:8]):
            outer = self.read(taken, INT64, self.rows).rows[:-1]
            row = Row(1, -number, ((axis, 1),))
            operands.append(Operand(Origin.NODE, INT64, taken, 0, (*outer, row)))
        self.add(Node(Kind.MOVE, Function.COPY, INT64, shape, tuple(operands)))
