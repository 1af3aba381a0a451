"""The operators whose leaves are measured: one of every kind, and the dearest scalar functions.

Every element that a leaf reads lies in a matrix of 2^20 elements, so that its proof is as long as
in the reference dispute.
"""

from collections.abc import Mapping

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.sim.synthetic.elements import Input, Subject
from moot.sim.synthetic.jobs import make_rows

F32, I64 = DType.FLOAT32, DType.INT64
SHAPE = (1 << 10, 1 << 10)
ELEMENT = 0xAAAAA
ROW = ELEMENT // SHAPE[1]
TERMS, TERM = 1 << 12, 0xAAA
MATCHES, MATCH = 64, 42
"""Positions that a scatter folds over; all are added to the element in dispute."""

X = Input(F32, SHAPE, 0x3F8CCCCD)
W = Input(F32, SHAPE, 0xBE99999A)
"""1.1 and -0.3."""


def _read(reference: int, origin: Origin = Origin.NODE) -> Operand:
    return Operand(origin, F32, reference, 0, make_rows(SHAPE))


def _map(function: Function, *inputs: Input) -> Subject:
    operands = tuple(_read(i) for i in range(len(inputs)))
    return Subject(Node(Kind.MAP, function, F32, SHAPE, operands), inputs, ELEMENT)


def _contract(factor: DType, result: DType, bits: tuple[int, int]) -> Subject:
    x = Operand(Origin.NODE, factor, 0, 0, (Row(SHAPE[0], 0, ((0, 1),)), Row(TERMS, 0, ((2, 1),))))
    w = Operand(Origin.NODE, factor, 1, 0, (Row(TERMS, 0, ((2, 1),)), Row(SHAPE[1], 0, ((1, 1),))))
    operands = (immediate(result, 0), x, w)
    node = Node(Kind.CONTRACT, Function.FMA, result, SHAPE, operands, (TERMS,))
    shapes = (SHAPE[0], TERMS), (TERMS, SHAPE[1])
    first, second = (Input(factor, *each) for each in zip(shapes, bits, strict=True))
    return Subject(node, (first, second), ELEMENT, TERM)


def _reduce(function: Function) -> Subject:
    """Fold the rows of a matrix of TERMS columns."""
    rows = (Row(SHAPE[0], 0, ((0, 1),)), Row(TERMS, 0, ((1, 1),)))
    x = Operand(Origin.NODE, F32, 0, 0, rows)
    node = Node(Kind.REDUCE, function, F32, SHAPE[:1], (immediate(F32, 0), x), (TERMS,))
    return Subject(node, (Input(F32, (SHAPE[0], TERMS), X.bits),), ROW, TERM)


def _search() -> Subject:
    """Look for the largest element of a row: the disputed step compares two that are proven."""
    rows = (Row(SHAPE[0], 0, ((0, 1),)), Row(MATCHES, 0, ((1, 1),)))
    x = Operand(Origin.NODE, F32, 0, 0, rows)
    operands = (immediate(I64, MATCHES), x)
    node = Node(Kind.REDUCE, Function.ARGMAX, I64, SHAPE[:1], operands, (MATCHES,))
    return Subject(node, (Input(F32, (SHAPE[0], MATCHES), X.bits),), ROW, MATCH)


def _move() -> Subject:
    """Put two halves side by side; the element is of the second."""
    half = SHAPE[1] // 2
    left = Row(SHAPE[0], 0, ((0, 1),)), Row(half, 0, ((1, 1),))
    right = Row(SHAPE[0], 0, ((0, 1),)), Row(half, -half, ((1, 1),))
    operands = tuple(Operand(Origin.NODE, F32, i, 0, rows) for i, rows in enumerate((left, right)))
    halves = Input(F32, (SHAPE[0], half), X.bits), Input(F32, (SHAPE[0], half), W.bits)
    return Subject(Node(Kind.MOVE, Function.COPY, F32, SHAPE, operands), halves, ELEMENT)


def _gather() -> Subject:
    """Look rows up in a table."""
    table = Row(SHAPE[0], 0, ((2, 1),)), Row(SHAPE[1], 0, ((1, 1),))
    indices = Input(I64, SHAPE[:1], ROW)
    operands = (
        Operand(Origin.NODE, F32, 0, 0, table),
        Operand(Origin.NODE, I64, 1, 0, (Row(SHAPE[0], 0, ((0, 1),)),)),
    )
    return Subject(Node(Kind.GATHER, Function.COPY, F32, SHAPE, operands), (X, indices), ELEMENT)


def _scatter() -> Subject:
    """Add rows to those of a table, all of them to the one in dispute."""
    source = Input(F32, (MATCHES, SHAPE[1]), W.bits)
    indices = Input(I64, (MATCHES,), ROW)
    rows = Row(MATCHES, 0, ((2, 1),)), Row(SHAPE[1], 0, ((1, 1),))
    operands = (
        _read(0),
        Operand(Origin.NODE, F32, 1, 0, rows),
        Operand(Origin.NODE, I64, 2, 0, (Row(MATCHES, 0, ((2, 1),)),)),
    )
    fold = (MATCHES,)
    node = Node(Kind.SCATTER, Function.ADD, F32, SHAPE, operands, fold, targets=(0,))
    return Subject(node, (X, source, indices), ELEMENT, MATCH)


def _random() -> Subject:
    node = Node(Kind.RANDOM, Function.UNIFORM, F32, SHAPE, seed=0xA5A5A5A5A5A5A5A5, stream=7)
    return Subject(node, (X,), ELEMENT)


def _source() -> Subject:
    """Read the state: the one before the step has to be shown, too."""
    node = Node(Kind.SOURCE, Function.COPY, F32, SHAPE, (_read(0, Origin.STATE),))
    return Subject(node, (X,), ELEMENT)


KINDS: Mapping[str, Subject] = {
    "map": _map(Function.MUL, X, W),
    "contract": _contract(F32, F32, (X.bits, W.bits)),
    "int8": _contract(DType.INT8, DType.INT32, (0x7F, 0x80)),
    "reduce": _reduce(Function.ADD),
    "search": _search(),
    "move": _move(),
    "gather": _gather(),
    "scatter": _scatter(),
    "random": _random(),
    "source": _source(),
}
"""A subject for each kind of operator, by its name.

A search is argmax or argmin, int8 a contraction of such integers.
"""

_DEAREST = {
    Function.EXP: (0x0BECD7B0,),
    Function.TAN: (0x5C90A958,),
    Function.ERFC: (0x4052D000,),
    Function.LOG1P: (0xBF168DA7,),
    Function.POW: (0x0069BF74, 0x3F800000),
}
"""Operands with which a function costs most, among those that `functions` draws."""

FUNCTIONS: Mapping[str, Subject] = {
    function.name.lower(): _map(function, *(Input(F32, SHAPE, bits) for bits in operands))
    for function, operands in _DEAREST.items()
}
"""A subject for the dearest function of each family, by its name."""

EMPTY = Subject(Node(Kind.MAP, Function.MUL, F32, (0, 64), (_read(0), _read(1))), (X, W))
"""An operator without elements, which cannot be wrong about any."""
