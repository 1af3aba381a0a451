"""Random legal programs, drawn without capture, which hold whatever a program file may hold."""

from collections.abc import Callable, Sequence
from math import prod
from random import Random
from typing import NamedTuple

from moot.offchain.arithmetic.evaluate import SIGNATURES
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.accesses import Sizes
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from tests.fuzz.accesses import draw_rows, draw_rows_of, is_legal
from tests.fuzz.matrices import draw_matrix_program
from tests.fuzz.values import draw_bits, draw_tensors
from tests.fuzz.windows import draw_windows

FLOAT32, INT64, INT32, BOOL, BFLOAT16, INT8 = DType
_LETTERS = {
    "F": (FLOAT32,),
    "I": (INT64, INT32),
    "B": (BOOL,),
    "X": tuple(DType),
    "Y": tuple(DType),
}
_RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8)
_FEW_RANKS = (0, 1, 1, 2, 2, 3, 8)
_MAPS = [f for f in sorted(SIGNATURES) if not f.is_transcendental]
_TRANSCENDENTALS = [f for f in sorted(SIGNATURES) if f.is_transcendental]
_FOLDS = [
    *((f, t) for f in (Function.ADD, Function.MUL) for t in (FLOAT32, INT64, INT32)),
    *((f, t) for f in (Function.MAX, Function.MIN) for t in (FLOAT32, INT64, INT32)),
    *((f, t) for f in (Function.AND, Function.OR) for t in (INT64, INT32, BOOL)),
    *[(Function.ADD, FLOAT32)] * 4,
]
_CONTRACTED = [*[(FLOAT32, FLOAT32)] * 5, (INT8, INT32), (INT32, INT32), (INT64, INT64)]
"""The types of factors and of results of contractions."""
MINUS_ZERO = 1 << 31
MOST_WORK = 900
"""Elements times fold steps of an operator."""


class Case(NamedTuple):
    """A program with what it runs on, and the number of the step."""

    program: Program
    state: list[Array]
    batch: list[Array]
    step: int


def draw_case(rng: Random, *, is_matrix: bool) -> Case:
    """Return a legal program and tensors for it: on one matrix, or of whatever there is."""
    return make_case(rng, draw_matrix_program(rng) if is_matrix else _Draw(rng).program())


def make_case(rng: Random, program: Program) -> Case:
    """Return a program with tensors for it."""
    step = rng.choice((0, 1, 7, 2**32 - 1))
    state, batch = (draw_tensors(rng, slots) for slots in (program.state, program.batch))
    return Case(program, state, batch, step)


class _Draw:
    """A program while it is drawn."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.batch: list[Slot] = []
        self.nodes: list[Node] = []
        count = rng.choice((1, 1, 2, 2, 3))
        self.state = [Slot(f"s{i}", self.dtype(), self.shape()) for i in range(count)]

    def dtype(self) -> DType:
        """Draw a type, mostly that of floats."""
        return self.rng.choice((FLOAT32, FLOAT32, FLOAT32, INT64, INT32, BOOL, BFLOAT16, INT8))

    def shape(self, most: int = 60, ranks: Sequence[int] = _RANKS) -> Sizes:
        """Draw a shape of at most so many elements."""
        sizes: list[int] = []
        for _ in range(self.rng.choice(ranks)):
            size = self.rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33))
            sizes.append(size if prod(sizes) * size <= most else 1)
        if self.rng.random() < 0.03 and sizes:
            sizes[self.rng.randrange(len(sizes))] = 0
        return tuple(sizes)

    def program(self) -> Program:
        """Draw operators, and sinks behind them."""
        draws: list[Callable[[], Node]] = [
            *[self.map] * 5,
            *[self.contract] * 3,
            self.convolve,
            *[self.reduce] * 3,
            *[self.gather] * 3,
            *[self.scatter] * 2,
            *[self.move] * 2,
            self.search,
            self.source,
            self.random,
        ]
        for _ in range(self.rng.choice((1, 2, 3, 4, 5, 6, 8))):
            node = self.rng.choice(draws)()
            if is_legal(node):
                self.nodes.append(node)
        self.nodes += [self.sink(slot) for slot in self.state]
        names = tuple(f"n{i}" for i in range(len(self.nodes)))
        lines = ("",) * len(names)
        return Program(tuple(self.state), tuple(self.batch), tuple(self.nodes), names, lines)

    def operand(
        self, dtype: DType, sizes: Sequence[int], extra: int = 0, constants: float = 0.12
    ) -> Operand:
        """Draw a constant, or an access to a tensor that there is, or to a new one."""
        rng = self.rng
        value = draw_bits(rng, dtype)
        if rng.random() < constants:
            return immediate(dtype, value)
        known = self.providers(dtype)
        if known and rng.random() < 0.6:
            origin, reference, elements = rng.choice(known[-4:] if rng.random() < 0.5 else known)
            rows = draw_rows_of(rng, elements, list(sizes), extra)
            return Operand(origin, dtype, reference, value, rows)
        return self.read(dtype, draw_rows(rng, list(sizes), extra), value)

    def read(self, dtype: DType, rows: tuple[Row, ...], value: int) -> Operand:
        """Return an access to a new slot of the batch."""
        shape = tuple(row.size for row in rows)
        if self.rng.random() < 0.2:
            shape = (prod(shape),)
        self.batch.append(Slot(f"b{len(self.batch)}", dtype, shape))
        return Operand(Origin.BATCH, dtype, len(self.batch) - 1, value, rows)

    def providers(self, dtype: DType) -> list[tuple[Origin, int, int]]:
        """Return what has elements of a type: where, which, how many."""
        pools: tuple[tuple[Origin, Sequence[Slot | Node]], ...] = (
            (Origin.STATE, self.state),
            (Origin.BATCH, self.batch),
            (Origin.NODE, self.nodes),
        )
        return [
            (origin, i, each.elements)
            for origin, pool in pools
            for i, each in enumerate(pool)
            if each.dtype is dtype
        ]

    def types(self, signature: str) -> list[DType]:
        """Draw the types of a signature, the result's last."""
        letters = signature.replace(">", "")
        chosen = {letter: self.rng.choice(_LETTERS[letter]) for letter in sorted(set(letters))}
        return [chosen[letter] for letter in letters]

    def map(self) -> Node:
        """Draw a map of any function; those that take long have few elements."""
        is_rare = self.rng.random() < 0.15
        function = self.rng.choice(_TRANSCENDENTALS if is_rare else _MAPS)
        *types, result = self.types(self.rng.choice(SIGNATURES[function]))
        shape = self.shape(16 if is_rare else 60)
        operands = tuple(self.operand(dtype, shape) for dtype in types)
        return Node(Kind.MAP, function, result, shape, operands)

    def folded(self, ranks: Sequence[int] = _FEW_RANKS) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Draw the shapes of a fold."""
        fold_shape = self.shape(24, (1, 1, 1, 2, 2, 3, 4))
        return self.shape(max(1, MOST_WORK // max(1, prod(fold_shape)) // 8), ranks), fold_shape

    def contract(self) -> Node:
        """Draw a contraction: products of matrices, windows over images, or any."""
        shape, fold_shape = self.folded()
        sizes = shape + fold_shape
        factor, result = self.rng.choice(_CONTRACTED)
        init = self.operand(result, sizes, constants=0.5)
        if self.rng.random() < 0.5:
            factors = [self.operand(factor, sizes, constants=0.03) for _ in range(2)]
        else:
            factors = [
                self.read(factor, rows, 0) for rows in _draw_product(self.rng, shape, fold_shape)
            ]
        return Node(Kind.CONTRACT, Function.FMA, result, shape, (init, *factors), fold_shape)

    def convolve(self) -> Node:
        """Draw a convolution, or the gradient of its input; sums start from any zero, mostly."""
        windows, rng = draw_windows(self.rng, MOST_WORK), self.rng
        start, fill = (
            rng.choice((0, MINUS_ZERO, draw_bits(rng, FLOAT32))) if rng.random() < 0.7 else 0
            for _ in range(2)
        )
        init = immediate(FLOAT32, start)
        if rng.random() < 0.3:
            init = self.read(FLOAT32, windows.bias, 0)
        factors = [self.read(FLOAT32, windows.image, fill), self.read(FLOAT32, windows.kernel, 0)]
        if rng.random() < 0.3:
            factors.reverse()
        operands = (init, *factors)
        return Node(
            Kind.CONTRACT, Function.FMA, FLOAT32, windows.shape, operands, windows.fold_shape
        )

    def reduce(self) -> Node:
        """Draw a reduction, of rows, in lanes, or of anything."""
        shape, fold_shape = self.folded()
        function, dtype = self.rng.choice(_FOLDS)
        init = self.operand(dtype, shape + fold_shape, constants=0.6)
        if self.rng.random() < 0.3 and shape:
            lanes, steps = shape[-1], fold_shape[-1]
            last = len(shape) - 1
            short = self.rng.choice((0, 0, 1))
            row = Row(
                max(lanes * steps - short, 0),
                0,
                ((last, 1), (len(shape) + len(fold_shape) - 1, lanes)),
            )
            rows = (*(Row(n, 0, ((v, 1),)) for v, n in enumerate(shape[:-1])), row)
            value = init.value if self.rng.random() < 0.7 else draw_bits(self.rng, dtype)
            operand = self.read(dtype, rows, value)
        else:
            operand = self.operand(dtype, shape + fold_shape, constants=0.03)
        return Node(Kind.REDUCE, function, dtype, shape, (init, operand), fold_shape)

    def search(self) -> Node:
        """Draw an argmax or argmin."""
        shape, fold_shape = self.folded()
        function = self.rng.choice((Function.ARGMAX, Function.ARGMIN))
        sizes = shape + fold_shape
        operands = (self.operand(INT64, sizes, constants=0.6), self.operand(self.dtype(), sizes))
        return Node(Kind.REDUCE, function, INT64, shape, operands, fold_shape)

    def move(self) -> Node:
        """Draw a move of one to eight candidates."""
        shape, dtype = self.shape(), self.dtype()
        count = self.rng.choice((1, 1, 2, 2, 3, 4, 8))
        operands = tuple(self.operand(dtype, shape) for _ in range(count))
        return Node(Kind.MOVE, Function.COPY, dtype, shape, operands)

    def source(self) -> Node:
        """Draw a source."""
        shape, dtype = self.shape(), self.dtype()
        return Node(Kind.SOURCE, Function.COPY, dtype, shape, (self.operand(dtype, shape),))

    def sink(self, slot: Slot) -> Node:
        """Draw the sink of a slot."""
        while True:
            operand = self.operand(slot.dtype, slot.shape)
            node = Node(Kind.SINK, Function.COPY, slot.dtype, slot.shape, (operand,))
            if is_legal(node):
                return node

    def random(self) -> Node:
        """Draw a random operator."""
        seed, stream = self.rng.getrandbits(64), self.rng.choice((0, 1, self.rng.getrandbits(32)))
        return Node(Kind.RANDOM, Function.UNIFORM, FLOAT32, self.shape(), seed=seed, stream=stream)

    def indices(self, count: int, sizes: Sequence[int]) -> list[Operand]:
        """Draw index operands."""
        return [self.operand(self.rng.choice((INT64, INT32)), sizes) for _ in range(count)]

    def gather(self) -> Node:
        """Draw a gather by one to seven indices."""
        shape, dtype = self.shape(), self.dtype()
        count = self.rng.choice((1, 1, 1, 2, 2, 3, 7))
        data = self.operand(dtype, shape, count, constants=0.03)
        return Node(Kind.GATHER, Function.COPY, dtype, shape, (data, *self.indices(count, shape)))

    def scatter(self) -> Node:
        """Draw a scatter; its source and indices depend on no named dimension, mostly."""
        shape, fold_shape = self.folded((1, 1, 2, 2, 3, 8))
        function, dtype = self.rng.choice(_FOLDS)
        if self.rng.random() < 0.4:
            function, dtype = Function.COPY, self.dtype()
        count = self.rng.choice((1, 1, 1, 2, 2, 6))
        targets = tuple(self.rng.randrange(len(shape)) for _ in range(count))
        sizes = [*shape, *fold_shape]
        hidden = [0 if v in targets and self.rng.random() < 0.8 else n for v, n in enumerate(sizes)]
        init = self.operand(dtype, sizes, constants=0.5)
        others = (self.operand(dtype, hidden), *self.indices(count, hidden))
        return Node(
            Kind.SCATTER, function, dtype, shape, (init, *others), fold_shape, targets=targets
        )


def _draw_product(rng: Random, shape: Sizes, fold_shape: Sizes) -> list[tuple[Row, ...]]:
    """Return the rows of two factors of which each uses its part of the output, and the fold."""
    sizes = shape + fold_shape
    owners = [rng.choice(((0,), (1,), (0, 1))) for _ in shape]
    found: list[tuple[Row, ...]] = []
    window = rng.random() < 0.5
    for factor in range(2):
        used = [v for v in range(len(sizes)) if v >= len(shape) or factor in owners[v]]
        if rng.random() < 0.3:
            rng.shuffle(used)
        rows: list[Row] = []
        for v in used:
            slide = [o for o in used if o < len(shape) and sizes[o] > 1]
            if window and factor == 0 and v >= len(shape) and slide:
                other, dilation, stride = slide[-1], rng.choice((1, 1, 2)), rng.choice((1, 1, 2))
                divisor, padding = rng.choice((1, 1, 1, 2)), rng.choice((0, 0, 1, 2))
                reach = stride * (sizes[other] - 1) + dilation * (sizes[v] - 1) - 2 * padding
                terms = ((other, stride), (v, dilation))
                rows = [row for row in rows if row.terms != ((other, 1),)]
                rows.append(Row(max(1, reach // divisor + 1), -padding, terms, divisor))
            else:
                rows.append(Row(max(sizes[v], 1), 0, ((v, 1),)))
        found.append(tuple(rows[:8]))
    return found
