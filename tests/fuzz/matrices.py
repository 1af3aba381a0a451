"""Random programs on the rows and columns of one matrix, which are fused, or barely are not.

Accesses are what captured programs have, but now and then one is shifted, stretched or written in
another way, so that the executor has to see that its shortcut does not hold.
"""

from dataclasses import replace
from math import prod
from random import Random

from moot.offchain.arithmetic.evaluate import SIGNATURES
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.planning.accesses import Sizes
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from tests.fuzz.accesses import disguise, is_legal
from tests.fuzz.values import draw_bits

FLOAT32, INT64, INT32, BOOL, *_ = DType
_ROWS = ((1,), (2,), (3,), (5,), (18,), (2, 3), (1, 4), (2, 2, 2))
_COLUMNS = (1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 33)
_LARGE_ROWS, _LARGE_COLUMNS = ((64,), (300,), (5, 40), (3,)), (33, 128, 500, 3000)
_MOST_ELEMENTS = 140
_FUNCTIONS = [
    *(f for f in sorted(SIGNATURES) if not f.is_transcendental),
    *(Function.EXP, Function.RSQRT, Function.SIGMOID),
    *(Function.ADD, Function.SUB, Function.MUL, Function.DIV, Function.MAX) * 4,
]
_IDENTITIES = {
    Function.ADD: 0,
    Function.MUL: 0x3F800000,
    Function.MAX: 0xFF800000,
    Function.MIN: 0x7F800000,
}
_ODD = 0.05
"""How often an access or a constant is not what it should be."""


def draw_matrix_program(rng: Random, *, is_large: bool = False) -> Program:
    """Return a program of four to twelve operators on one matrix."""
    return _Matrix(rng, is_large=is_large).program()


class _Matrix:
    """A program while it is drawn: values with an element for each place, row or column."""

    def __init__(self, rng: Random, *, is_large: bool) -> None:
        self.rng = rng
        rows, columns = (_LARGE_ROWS, _LARGE_COLUMNS) if is_large else (_ROWS, _COLUMNS)
        self.rows: Sizes = rng.choice(rows)
        fitting = [n for n in columns if n * prod(self.rows) <= _MOST_ELEMENTS or is_large]
        self.columns: int = rng.choice(fitting)
        self.whole = (*self.rows, self.columns)
        kinds = (FLOAT32, FLOAT32, FLOAT32, rng.choice((INT32, BOOL, INT64)))
        self.slots = [
            *(Slot(f"x{i}", dtype, self.whole) for i, dtype in enumerate(kinds)),
            Slot("r", FLOAT32, self.rows),
            Slot("i", rng.choice((INT64, INT32)), self.rows),
            Slot("c", FLOAT32, (self.columns,)),
        ]
        self.nodes: list[Node] = []
        for place, slot in enumerate(self.slots):
            operand = self.access(Origin.STATE, place, slot.dtype, slot.shape, 0)
            self.add(Node(Kind.SOURCE, Function.COPY, slot.dtype, slot.shape, (operand,)))

    def add(self, node: Node) -> int | None:
        """Add an operator if it is legal, and return its index."""
        if not is_legal(node):
            return None
        self.nodes.append(node)
        return len(self.nodes) - 1

    def access(
        self, origin: Origin, reference: int, dtype: DType, shape: Sizes, first: int, value: int = 0
    ) -> Operand:
        """Return an access to a tensor by the variables from the first on."""
        rows = tuple(Row(n, 0, ((first + axis, 1),)) for axis, n in enumerate(shape))
        return self.spoil(Operand(origin, dtype, reference, value, rows))

    def spoil(self, operand: Operand) -> Operand:
        """Return an access in other words, and now and then another one."""
        rows = [self._spoil_row(row) for row in operand.rows]
        if self.rng.random() < _ODD and len(rows) > 1:
            self.rng.shuffle(rows)
        return replace(operand, rows=tuple(disguise(self.rng, row) for row in rows))

    def _spoil_row(self, row: Row) -> Row:
        if self.rng.random() >= _ODD or not row.terms:
            return row
        (variable, step), *rest = row.terms
        changes = (
            Row(row.size, row.offset + self.rng.choice((1, -1)), row.terms),
            Row(row.size, row.size - 1, ((variable, -step), *rest)),
            Row(row.size, row.offset, ((variable, 2 * step), *rest), self.rng.choice((1, 2, 3))),
            Row(row.size, row.offset, tuple(rest)),
        )
        return self.rng.choice(changes)

    def find(self, dtype: DType, shape: Sizes) -> Operand | None:
        """Return an access to one of the latest values of a type and a shape, if there is one."""
        found = [i for i, n in enumerate(self.nodes) if n.dtype is dtype and n.shape == shape]
        if not found:
            return None
        return self.access(Origin.NODE, self.rng.choice(found[-3:]), dtype, shape, 0)

    def operand(self, dtype: DType, shape: Sizes) -> Operand:
        """Return what a map on places or rows reads."""
        kind = self.rng.choice(("same",) * 5 + ("row",) * 2 + ("column", "constant"))
        found = None
        if kind == "row" and shape == self.whole:
            found = self.find(dtype, self.rows)
        elif kind == "column" and shape == self.whole:
            found = self.find(dtype, (self.columns,))
            if found is not None:
                found = self.spoil(
                    replace(found, rows=(Row(self.columns, 0, ((len(self.rows), 1),)),))
                )
        elif kind != "constant":
            found = self.find(dtype, shape)
        return found or immediate(dtype, draw_bits(self.rng, dtype))

    def program(self) -> Program:
        """Draw operators, and keep what nothing reads, and some of what is read."""
        steps = [self.map] * 3 + [self.fold] * 2
        steps += [self.pass_down, self.segments, self.hot, self.pick, self.reshape]
        for _ in range(self.rng.randint(3, 10)):
            self.rng.choice(steps)()
        read = {o.reference for node in self.nodes for o in node.operands}
        for index, node in list(enumerate(self.nodes)):
            if index not in read or self.rng.random() < 0.1:
                self.slots.append(Slot(f"k{index}", node.dtype, node.shape))
        nodes = list(self.nodes)
        for slot in self.slots:
            found = [
                i
                for i, n in enumerate(self.nodes)
                if (n.dtype, n.shape) == (slot.dtype, slot.shape)
            ]
            kept = int(slot.name[1:]) if slot.name[0] == "k" else self.rng.choice(found)
            rows = tuple(Row(n, 0, ((axis, 1),)) for axis, n in enumerate(slot.shape))
            operand = Operand(Origin.NODE, slot.dtype, kept, 0, rows)
            nodes.append(Node(Kind.SINK, Function.COPY, slot.dtype, slot.shape, (operand,)))
        names = tuple(f"n{i}" for i in range(len(nodes)))
        return Program(tuple(self.slots), (), tuple(nodes), names, ("",) * len(nodes))

    def map(self) -> None:
        """Add a map on places, or on rows."""
        kinds = {"F": (FLOAT32,), "I": (INT64, INT32), "B": (BOOL,)}
        function = self.rng.choice(_FUNCTIONS)
        signature = self.rng.choice(SIGNATURES[function]).replace(">", "")
        chosen = {c: self.rng.choice(kinds.get(c, tuple(DType))) for c in sorted(set(signature))}
        *types, result = (chosen[c] for c in signature)
        shape = self.rng.choice((self.whole, self.whole, self.whole, self.rows, (self.columns,)))
        operands = tuple(self.operand(dtype, shape) for dtype in types)
        self.add(Node(Kind.MAP, function, result, shape, operands))

    def choose_fold(self) -> tuple[Function, int]:
        """Return a fold of floats and where it starts."""
        function = self.rng.choice((Function.ADD, *_IDENTITIES))
        is_odd = self.rng.random() < 4 * _ODD
        return function, draw_bits(self.rng, FLOAT32) if is_odd else _IDENTITIES[function]

    def fold(self) -> None:
        """Fold the rows of floats, whole or in lanes, or search in them."""
        source, rank = self.find(FLOAT32, self.whole), len(self.rows)
        if source is None:
            return
        function, init = self.choose_fold()
        start, last = immediate(FLOAT32, init), source.rows[-1]
        if self.rng.random() < 0.15:
            search = self.rng.choice((Function.ARGMAX, Function.ARGMIN))
            operands = (immediate(INT64, 2**64 - 1), source)
            self.add(Node(Kind.REDUCE, search, INT64, self.rows, operands, (self.columns,)))
        elif self.rng.random() < 0.5:
            operands = (start, source)
            self.add(Node(Kind.REDUCE, function, FLOAT32, self.rows, operands, (self.columns,)))
        else:
            lanes = self.rng.choice((2, 4, 8, 16, 3))
            steps = -(-self.columns // lanes)
            row = disguise(self.rng, Row(last.size, 0, ((rank, 1), (rank + 1, lanes))))
            value = init if self.rng.random() < 1 - 2 * _ODD else draw_bits(self.rng, FLOAT32)
            inner = replace(source, value=value, rows=(*source.rows[:-1], row))
            partial = (*self.rows, lanes)
            place = self.add(
                Node(Kind.REDUCE, function, FLOAT32, partial, (start, inner), (steps,))
            )
            self._fold_again(function, start, place, partial)

    def _fold_again(
        self, function: Function, start: Operand, place: int | None, shape: Sizes
    ) -> None:
        """Fold the lanes of the last fold."""
        if place is None:
            return
        x = self.access(Origin.NODE, place, FLOAT32, shape, 0)
        if self.rng.random() < _ODD:
            function = self.rng.choice(tuple(_IDENTITIES))
        self.add(Node(Kind.REDUCE, function, FLOAT32, shape[:-1], (start, x), shape[-1:]))

    def pass_down(self) -> None:
        """Fold the columns of floats, whole or in lanes."""
        source, rows = self.find(FLOAT32, self.whole), prod(self.rows)
        if source is None:
            return
        function, init = self.choose_fold()
        start, columns = immediate(FLOAT32, init), self.columns
        if self.rng.random() < 0.5:
            flat = Row(rows * columns, 0, ((0, 1), (1, columns)))
            x = self.spoil(replace(source, rows=(flat,)))
            self.add(Node(Kind.REDUCE, function, FLOAT32, (columns,), (start, x), (rows,)))
            return
        lanes = self.rng.choice((2, 4, 8))
        steps = -(-rows // lanes)
        access = (Row(rows, 0, ((1, 1), (2, lanes))), Row(columns, 0, ((0, 1),)))
        x = self.spoil(replace(source, value=init, rows=access))
        node = Node(Kind.REDUCE, function, FLOAT32, (columns, lanes), (start, x), (steps,))
        self._fold_again(function, start, self.add(node), (columns, lanes))

    def segments(self) -> None:
        """Fold all rows, each in lanes, and then the lanes."""
        source, rank = self.find(FLOAT32, self.whole), len(self.rows)
        if source is None or rank > 3:
            return
        function, init = self.choose_fold()
        start, lanes = immediate(FLOAT32, init), self.rng.choice((2, 4, 8))
        steps = -(-self.columns // lanes)
        cut = self.rng.randint(0, rank - 1)
        outer, lead = self.rows[:cut], self.rows[cut:]
        folds = [Row(n, 0, ((cut + 1 + axis, 1),)) for axis, n in enumerate(lead)]
        last = Row(self.columns, 0, ((cut, 1), (cut + 1 + len(lead), lanes)))
        access = (*(Row(n, 0, ((axis, 1),)) for axis, n in enumerate(outer)), *folds, last)
        x = self.spoil(replace(source, value=init, rows=access))
        shape = (*outer, lanes)
        node = Node(Kind.REDUCE, function, FLOAT32, shape, (start, x), (*lead, steps))
        self._fold_again(function, start, self.add(node), shape)

    def hot(self) -> None:
        """Scatter one element into every row, at the column that the index says."""
        dtype = self.rng.choice((INT64, INT32))
        index, source = self.find(dtype, self.rows), self.operand(FLOAT32, self.rows)
        if index is None:
            return
        rank = len(self.rows)
        function = Function.COPY if self.rng.random() < 0.8 else Function.ADD
        operands = (immediate(FLOAT32, draw_bits(self.rng, FLOAT32)), source, index)
        self.add(Node(Kind.SCATTER, function, FLOAT32, self.whole, operands, (1,), targets=(rank,)))

    def pick(self) -> None:
        """Gather one element of every row, from the column that the index says."""
        dtype = self.rng.choice((INT64, INT32))
        index, data = self.find(dtype, self.rows), self.find(FLOAT32, self.whole)
        if index is None or data is None:
            return
        value = draw_bits(self.rng, FLOAT32)
        operands = (replace(data, value=value), index)
        self.add(Node(Kind.GATHER, Function.COPY, FLOAT32, self.rows, operands))

    def reshape(self) -> None:
        """Copy a value in another shape, or transposed."""
        source = self.find(self.rng.choice(tuple(DType)), self.whole)
        if source is None:
            return
        elements = prod(self.whole)
        shape = self.rng.choice(((elements,), (1, elements), self.whole, self.whole[::-1]))
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        if self.rng.random() < 0.3:
            strides.reverse()
        flat = Row(elements, 0, tuple(enumerate(strides)))
        operand = self.spoil(replace(source, rows=(flat,)))
        self.add(Node(Kind.MOVE, Function.COPY, source.dtype, shape, (operand,)))
