"""Encodings of operators at the limits of what is accepted, beyond them, and with bytes changed."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from offchain.programs.encoding import encode_node
from offchain.programs.graph import Node, Operand, Origin, Row
from tests.referee.programs import every_kind

BYTES = (0, 1, 2, 3, 4, 5, 8, 9, 12, 13, 29, 30, 31, 32, 78, 81, 255)
"""Numbers of types, kinds, functions and dimensions, and those next to them."""


def list_sizes() -> Iterator[bytes]:
    """Yield operators whose output or fold has about 2^63 bytes, or overflows on the way."""
    yield _change(8, shape=(2**31, 2**30))
    yield _change(8, shape=(2**31, 2**29))
    yield _change(8, shape=(2**63, 2**63, 2**63, 2**63, 2**63, 0))
    yield _change(8, shape=(2**64 - 1,) * 8)
    yield _change(5, fold_shape=(2**31, 2**30))
    yield _change(5, fold_shape=(2**60, 2))
    yield _change(5, fold_shape=(2**64 - 1, 0, 2**64 - 1))


def list_types() -> Iterator[bytes]:
    """Yield operators of functions and types that their kinds have, and of others."""
    functions = {
        5: (0, 1, 3),
        6: (0, 2, 17, 28, 29, 31, 64),
        8: (1, 29),
        9: (1, 30),
        10: (0, 2, 7, 29, 30),
        12: (0, 28),
        13: (5, 11, 21, 29, 30, 64, 77, 80),
    }
    for index, numbers in functions.items():
        yield from (_change(index, function=number) for number in numbers)
    yield from (_change(7, function=number, dtype=3) for number in (1, 30, 31))
    for index in (5, 6, 9, 10, 12, 13):
        yield from (_change(index, dtype=dtype) for dtype in (2, 4))


def list_rows() -> Iterator[bytes]:
    """Yield operators with an operand whose rows, terms, divisors or sizes are at a limit."""
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
        yield _read(Origin.NODE, 0, 0, rows)


def list_constants() -> Iterator[bytes]:
    """Yield operators with constants that refer to something, have rows, or do not fit."""
    for bits in (0x7FC00000, 0x7FC00001, 0xFF800000, 0xFF800001, 2**32):
        yield _read(Origin.IMMEDIATE, 0, bits)
    yield _read(Origin.IMMEDIATE, 1, 0)
    yield _read(Origin.IMMEDIATE, 0, 0, (Row(1),))
    yield _read(Origin.STATE, 2**32 - 1, 2**32, (Row(1),))


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


def _read(origin: Origin, reference: int, value: int, rows: tuple[Row, ...] = ()) -> bytes:
    """Return a copy of one operand."""
    node = every_kind().nodes[8]
    operand = Operand(origin, node.dtype, reference, value, rows)
    return encode_node(replace(node, operands=(operand,)))
