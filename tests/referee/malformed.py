"""Encodings of operators at the limits of what is accepted, beyond them, and with bytes changed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.referee.programs import every_kind

BYTES = (0, 1, 2, 3, 4, 5, 8, 9, 12, 13, 29, 30, 31, 32, 78, 81, 255)
"""Numbers of types, kinds, functions and dimensions, and those next to them."""
FUNCTIONS = (*range(33), 63, 64, 65, *range(77, 83), 127, 128, 255)
"""Numbers of functions, and those next to them."""
TYPED = (
    *(Function.ADD, Function.MAX, Function.AND, Function.OR, Function.COPY),
    *(Function.ARGMAX, Function.ARGMIN),
)
"""Functions that differ in the types for which they are defined."""
KINDS = (0, *range(5, 11), *range(12, 16), 18)
"""Operators of `every_kind`: one or more of each kind."""


def list_sizes() -> Iterator[bytes]:
    """Yield operators of most dimensions, and with about 2^63 bytes, or more on the way."""
    for rank in (8, 9):
        yield _change(8, shape=(1,) * rank)
    for rank in (4, 5):
        yield _change(5, fold_shape=(1,) * rank)
    yield _change(8, shape=(2**31, 2**30))
    yield _change(8, shape=(2**31, 2**29))
    yield _change(8, shape=(2**63, 2**63, 2**63, 2**63, 2**63, 0))
    yield _change(8, shape=(2**64 - 1,) * 8)
    yield _change(5, fold_shape=(2**31, 2**30))
    yield _change(5, fold_shape=(2**60, 2))
    yield _change(5, fold_shape=(2**64 - 1, 0, 2**64 - 1))


def list_types() -> Iterator[bytes]:
    """Yield operators of every kind with each function, and with each type at each place."""
    for index in KINDS:
        node = every_kind().nodes[index]
        reads = node.operands
        yield from (_change(index, function=number) for number in FUNCTIONS)
        yield from (_change(index, dtype=number) for number in range(8))
        for dtype in DType:
            typed = tuple(immediate(dtype, 0) for _ in reads)
            yield from (_change(index, dtype=dtype, operands=typed, function=f) for f in TYPED)
            for place in range(len(reads)):
                changed = (*reads[:place], immediate(dtype, 0), *reads[place + 1 :])
                yield _change(index, operands=changed)
                yield _change(index, dtype=DType.INT64, operands=changed)


def list_factors() -> Iterator[bytes]:
    """Yield contractions of each type, of an initial value and of factors of each other type.

    Moves of such operands, too, which may not be of a shorter type, as factors may.
    """
    (index,) = (i for i in KINDS if every_kind().nodes[i].kind is Kind.CONTRACT)
    for result, first, second in product(DType, repeat=3):
        for init in {result, first}:
            operands = tuple(immediate(dtype, 0) for dtype in (init, first, second))
            yield _change(index, dtype=result, operands=operands)
            yield _change(8, dtype=result, operands=operands)


def list_counts() -> Iterator[bytes]:
    """Yield operators of every kind, and of none, with all numbers of operands and of targets."""
    for index in KINDS:
        node = every_kind().nodes[index]
        reads = node.operands or (immediate(node.dtype, 0),)
        for count in range(10):
            operands = (*reads, *reads[-1:] * count)[:count]
            targets = node.targets * max(count - 2, 0)
            yield _change(index, operands=operands, targets=targets)
            if node.kind is Kind.MAP:
                yield _change(index, operands=operands, function=Function.FMA)
    for targets in ((), (0, 0), (1,), (255,)):
        yield _change(10, targets=targets)
    for number in (0, 10, 255):
        yield _change(8, kind=number, operands=())
    for index in (6, 8):
        for fold_shape in ((), (1,)):
            yield _change(index, operands=(immediate(DType.FLOAT32, 0),) * 2, fold_shape=fold_shape)


def list_rows() -> Iterator[bytes]:
    """Yield operators with an operand whose rows, terms, variables or sizes are at a limit."""
    for rows in (
        (Row(1),) * 8,
        (Row(1),) * 9,
        (Row(2**64 - 1, terms=((0, 1), (1, 1))),),
        (Row(2**60), Row(2)),
        (Row(2**60), Row(2), Row(0)),
        (Row(1, -(2**63), ((0, -(2**63)),), 2**32 - 1),),
        (Row(1, 0, ((1, 1), (0, 1))),),
        (Row(1, 0, ((0, 1), (0, 1))),),
        (Row(1, 0, ((2, 1),)),),
        (Row(1, 0, ((1, 0),)),),
        (Row(1, 0, (), 0),),
        (Row(1, 0, tuple((v, 1) for v in range(13))),),
    ):
        yield _read(Origin.NODE, rows)
    for terms in (12, 13):
        yield _gather(tuple((v, 1) for v in range(terms)), ())
    for variable in (14, 15):
        yield _gather(((variable, 1),), ())
    for variable in (7, 8):
        yield _gather((), ((variable, 1),))


def list_constants() -> Iterator[bytes]:
    """Yield operators with constants that refer to something, have rows, or do not fit."""
    for dtype, values in (
        (DType.FLOAT32, (0x7FC00000, 0x7FC00001, 0xFF800000, 0xFF800001, 2**32)),
        (DType.INT64, (2**64 - 1,)),
        (DType.INT32, (2**32 - 1, 2**32)),
        (DType.BOOL, (1, 2, 2**8)),
        (DType.BFLOAT16, (0x7FC0, 0x7FC1, 0xFF80, 0xFF81, 2**16)),
        (DType.INT8, (2**8 - 1, 2**8)),
    ):
        for value in values:
            yield _change(8, dtype=dtype, operands=(immediate(dtype, value),))
    for reference, rows in ((1, ()), (0, (Row(1),))):
        yield _read(Origin.IMMEDIATE, rows, reference)
    for origin in (*Origin, 4):
        for value in (0, 2**32):
            yield _read(origin, (Row(1),), 2**32 - 1, value)


LIMITS = (list_sizes, list_types, list_factors, list_counts, list_rows, list_constants)
"""What yields operators within a limit, and beyond it."""


def list_changed(rng: random.Random) -> Iterator[bytes]:
    """Yield the encodings of all kinds: whole, too long, cut short, and with each byte changed."""
    for node in every_kind().nodes:
        encoding = encode_node(node)
        yield encoding
        yield encoding + b"\0"
        for place in range(len(encoding)):
            yield encoding[:place] + bytes([rng.choice(BYTES)]) + encoding[place + 1 :]
        yield from (encoding[:length] for length in range(0, len(encoding), 7))


def _change(index: int, **changes: Any) -> bytes:
    node: Node = replace(every_kind().nodes[index], **changes)
    return encode_node(node)


def _read(origin: Any, rows: tuple[Row, ...], reference: int = 0, value: int = 0) -> bytes:
    """Return a copy of one operand."""
    node = every_kind().nodes[8]
    operand = Operand(origin, node.dtype, reference, value, rows)
    return encode_node(replace(node, operands=(operand,)))


def _gather(data: Sequence[tuple[int, int]], indices: Sequence[tuple[int, int]]) -> bytes:
    """Return a gather of all dimensions and by as many indices as there may be."""
    index = Operand(Origin.NODE, DType.INT64, 0, 0, (Row(1, 0, tuple(indices)),))
    reads = (Operand(Origin.NODE, DType.FLOAT32, 0, 0, (Row(1, 0, tuple(data)),)), *[index] * 7)
    return _change(9, shape=(1,) * 8, operands=reads)
