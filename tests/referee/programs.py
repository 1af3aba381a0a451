"""A tiny program, built by hand, in which every operator kind occurs."""

from collections.abc import Iterable, Sequence

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.programs.graph import (
    Kind,
    Node,
    Operand,
    Origin,
    Program,
    Row,
    Slot,
    immediate,
)
from moot.offchain.programs.legality import check_program

F32, I64 = DType.FLOAT32, DType.INT64


def row(size: int, *terms: tuple[int, int], offset: int = 0, divisor: int = 1) -> Row:
    """Return a row: its size, then (variable, coefficient) pairs."""
    return Row(size, offset, terms, divisor)


def rows(shape: Sequence[int], first: int = 0) -> tuple[Row, ...]:
    """Return the rows that read a tensor of this shape by the variables from `first` on."""
    return tuple(row(size, (first + i, 1)) for i, size in enumerate(shape))


def node_operand(reference: int, dtype: DType, access: Iterable[Row], fill: int = 0) -> Operand:
    """Return an operand that reads the output of a node."""
    return Operand(Origin.NODE, dtype, reference, fill, tuple(access))


def build(state: Sequence[Slot], batch: Sequence[Slot], nodes: Sequence[Node]) -> Program:
    """Return a checked program of these nodes; the last are the sinks."""
    names = tuple(f"n{i}" for i in range(len(nodes)))
    program = Program(tuple(state), tuple(batch), tuple(nodes), names, ("",) * len(nodes))
    check_program(program)
    return program


def source(slot: int, origin: Origin, dtype: DType, shape: Sequence[int]) -> Node:
    """Return the node that reads a slot."""
    operand = Operand(origin, dtype, slot, 0, rows(shape))
    return Node(Kind.SOURCE, Function.COPY, dtype, tuple(shape), (operand,))


def sink(reference: int, dtype: DType, shape: Sequence[int]) -> Node:
    """Return the node that writes a slot."""
    operand = node_operand(reference, dtype, rows(shape))
    return Node(Kind.SINK, Function.COPY, dtype, tuple(shape), (operand,))


def every_kind() -> Program:
    """Return a program in which each operator kind occurs, with fills, strides and divisors."""
    w, x, i, m = (2, 3), (3, 4), (3,), (70,)
    state = (Slot("w", F32, w), Slot("m", F32, m), Slot("n", I64, ()))
    batch = (Slot("x", F32, x), Slot("i", I64, i))
    product = (2, 4)
    nodes = (
        source(0, Origin.STATE, F32, w),
        source(1, Origin.STATE, F32, m),
        source(2, Origin.STATE, I64, ()),
        source(0, Origin.BATCH, F32, x),
        source(1, Origin.BATCH, I64, i),
        # 5: w @ x
        Node(
            Kind.CONTRACT,
            Function.FMA,
            F32,
            product,
            (
                immediate(F32, 0),
                node_operand(0, F32, (row(2, (0, 1)), row(3, (2, 1)))),
                node_operand(3, F32, (row(3, (2, 1)), row(4, (1, 1)))),
            ),
            (3,),
        ),
        # 6: the sum of all of m, from a value on
        Node(
            Kind.REDUCE,
            Function.ADD,
            F32,
            (),
            (node_operand(0, F32, (row(2), row(3, offset=2))), node_operand(1, F32, rows(m))),
            m,
        ),
        # 7: where the largest element of each row of the product is
        Node(
            Kind.REDUCE,
            Function.ARGMAX,
            I64,
            (2,),
            (immediate(I64, 99), node_operand(5, F32, rows(product))),
            (4,),
        ),
        # 8: the product, transposed, after three columns of padding and before a constant
        Node(
            Kind.MOVE,
            Function.COPY,
            F32,
            (4, 7),
            (
                node_operand(5, F32, (row(2, (1, 1), offset=-3), row(4, (0, 1)))),
                Operand(
                    Origin.NODE, F32, 0, 0, (row(2, (1, 1), offset=-5), row(3, (0, 1), divisor=2))
                ),
                immediate(F32, 0x3F800000),
            ),
        ),
        # 9: columns of x by an index
        Node(
            Kind.GATHER,
            Function.COPY,
            F32,
            (3, 3),
            (
                node_operand(3, F32, (row(3, (0, 1)), row(4, (2, 1))), fill=0x7FC00000),
                node_operand(4, I64, (row(3, (1, 1)),)),
            ),
        ),
        # 10: elements of x added up by an index
        Node(
            Kind.SCATTER,
            Function.ADD,
            F32,
            (4,),
            (
                immediate(F32, 0x3F800000),
                node_operand(3, F32, (row(3, (1, 1)), row(4))),
                node_operand(4, I64, (row(3, (1, 1)),)),
            ),
            (3,),
            targets=(0,),
        ),
        # 11: as 10, the last one stays
        Node(
            Kind.SCATTER,
            Function.COPY,
            F32,
            (4,),
            (
                immediate(F32, 0),
                node_operand(3, F32, (row(3, (1, 1)), row(4, offset=1))),
                node_operand(4, I64, (row(3, (1, 1)),)),
            ),
            (3,),
            targets=(0,),
        ),
        Node(Kind.RANDOM, Function.UNIFORM, F32, (5,), seed=1 << 40 | 7, stream=3),
        # 13: m and the sum
        Node(
            Kind.MAP,
            Function.ADD,
            F32,
            m,
            (node_operand(1, F32, rows(m)), node_operand(6, F32, ())),
        ),
        # 14: a tensor without elements
        Node(Kind.MAP, Function.NEG, F32, (0, 3), (node_operand(0, F32, (row(2), row(3))),)),
        # 15: n + 1
        Node(Kind.MAP, Function.ADD, I64, (), (node_operand(2, I64, ()), immediate(I64, 1))),
        # 16: a fold over nothing
        Node(
            Kind.REDUCE,
            Function.ADD,
            F32,
            (2,),
            (
                node_operand(0, F32, (row(2, (0, 1)), row(3))),
                node_operand(14, F32, (row(0, (1, 1)), row(3))),
            ),
            (0,),
        ),
        # 17: a function that the chain does not know
        Node(Kind.MAP, Function.TANH, F32, w, (node_operand(0, F32, rows(w)),)),
        sink(0, F32, w),
        sink(13, F32, m),
        sink(15, I64, ()),
    )
    return build(state, batch, nodes)
