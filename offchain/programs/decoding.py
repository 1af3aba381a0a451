"""The strict decoder of operators and programs, which arrive from other parties.

It accepts the encodings of what is legal (`legality.py`), and nothing else.
"""

import struct
from contextlib import suppress
from dataclasses import dataclass

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.errors import ProgramError
from moot.offchain.programs.encoding import (
    NODE,
    OPERAND,
    ROW,
    TAIL_OF_RANDOM,
    TERM,
    encode_first_line,
)
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot
from moot.offchain.programs.legality import check_counts, check_node, check_program
from moot.offchain.programs.limits import MAX_NODE_BYTES

_DRAFT_LETTERS = 1_000


class Reader:
    """Takes fields off the front of hostile bytes; running out of them is a `ProgramError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        if count > len(self._data) - self._offset:
            raise ProgramError("the encoding ends early; ask its sender for the whole file")
        piece = self._data[self._offset : self._offset + count]
        self._offset += count
        return piece

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Return the next fields of this layout."""
        return layout.unpack(self.take(layout.size))

    def integer(self, count: int) -> int:
        """Return the next big-endian unsigned integer of `count` bytes."""
        return int.from_bytes(self.take(count), "big")

    @property
    def taken(self) -> bytes:
        """All that was taken so far."""
        return self._data[: self._offset]

    def finish(self) -> None:
        """Refuse trailing bytes."""
        if self._offset != len(self._data):
            raise ProgramError("bytes follow the end of the encoding; it is not canonical")


def decode_node(data: bytes, arithmetic: Arithmetic) -> Node:
    """Return the node that these bytes encode; `ProgramError` unless canonical and legal."""
    node = read_node(data)
    check_node(node, arithmetic)
    return node


def read_node(data: bytes) -> Node:
    """Return the node that these bytes encode, legal or not; `ProgramError` if there is none."""
    if len(data) > MAX_NODE_BYTES:
        raise ProgramError(f"an operator of {len(data)} bytes is above {MAX_NODE_BYTES}")
    reader = Reader(data)
    try:
        node = _read_node(reader)
    except ValueError as error:
        raise ProgramError(f"the operator's encoding is invalid: {error}") from error
    reader.finish()
    return node


def _read_node(reader: Reader) -> Node:
    kind, function, dtype, rank, fold_rank, count = reader.unpack(NODE)
    shape = tuple(reader.integer(8) for _ in range(rank))
    fold_shape = tuple(reader.integer(8) for _ in range(fold_rank))
    operands = tuple(_read_operand(reader) for _ in range(count))
    seed = stream = 0
    targets: tuple[int, ...] = ()
    if kind == Kind.RANDOM:
        seed, stream = reader.unpack(TAIL_OF_RANDOM)
    if kind == Kind.SCATTER:
        targets = tuple(reader.take(max(count - 2, 0)))
    return Node(
        Kind(kind),
        Function(function),
        DType(dtype),
        shape,
        operands,
        fold_shape,
        seed,
        stream,
        targets,
    )


def _read_operand(reader: Reader) -> Operand:
    origin, dtype, reference, value, count = reader.unpack(OPERAND)
    rows = tuple(_read_row(reader) for _ in range(count))
    return Operand(Origin(origin), DType(dtype), reference, value, rows)


def _read_row(reader: Reader) -> Row:
    size, divisor, offset, count = reader.unpack(ROW)
    terms = tuple((t[0], t[1]) for t in (reader.unpack(TERM) for _ in range(count)))
    return Row(size, offset, terms, divisor)


def decode_program(data: bytes) -> Program:
    """Return the program of a file form; `ProgramError` unless it is canonical and legal."""
    arithmetic = _read_first_line(data)
    reader = Reader(data[len(encode_first_line(arithmetic)) :])
    state, batch = _read_slots(reader), _read_slots(reader)
    count = reader.integer(4)
    check_counts(len(state), len(batch), count)
    nodes, names, lines = [], [], []
    for _ in range(count):
        nodes.append(read_node(reader.take(reader.integer(2))))
        names.append(_text(reader))
        lines.append(_text(reader))
    reader.finish()
    program = Program(state, batch, tuple(nodes), tuple(names), tuple(lines), arithmetic)
    check_program(program)
    return program


@dataclass(frozen=True, slots=True)
class Draft:
    """What can be read of a program's file of which some may be wrong; nothing of it is checked.

    Attributes:
        layout: the encoding of the slots.
        operators: the encoding, the name and the line of each operator up to the first that
            cannot be told from the next.
    """

    layout: bytes
    operators: tuple[tuple[bytes, str, str], ...]


def read_draft(data: bytes, arithmetic: Arithmetic, most: int) -> Draft | None:
    """Return what can be read of a program's file, of at most so many operators; None if nothing.

    Args:
        data: the file, or what a stranger calls one.
        arithmetic: the program's arithmetic.
        most: the most operators that are read.
    """
    first_line = encode_first_line(arithmetic)
    if not data.startswith(first_line):
        return None
    reader = Reader(data[len(first_line) :])
    operators: list[tuple[bytes, str, str]] = []
    layout = b""
    with suppress(ProgramError):
        _read_slots(reader)
        _read_slots(reader)
        layout = reader.taken
        for _ in range(min(reader.integer(4), most)):
            encoding = reader.take(reader.integer(2))
            name, line = (reader.take(reader.integer(2)) for _ in range(2))
            operators.append((encoding, _salvage(name), _salvage(line)))
    return Draft(layout, tuple(operators)) if layout else None


def _salvage(text: bytes) -> str:
    """Return what can be read of a text for people."""
    return text.decode(errors="replace")[:_DRAFT_LETTERS]


def decode_layout(data: bytes) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
    """Return the slots of the state and of the batch; `ProgramError` unless there is no more."""
    reader = Reader(data)
    slots = _read_slots(reader), _read_slots(reader)
    reader.finish()
    return slots


def _read_first_line(data: bytes) -> Arithmetic:
    """Return the arithmetic that a program's first line names."""
    for arithmetic in ARITHMETICS.values():
        if data.startswith(encode_first_line(arithmetic)):
            return arithmetic
    known = ", ".join(map(str, ARITHMETICS.values()))
    raise ProgramError(
        f"this is not a program of a version and an arithmetic that we know ({known})"
    )


def _text(reader: Reader) -> str:
    try:
        return reader.take(reader.integer(2)).decode()
    except UnicodeDecodeError as error:
        raise ProgramError("a name in the program is not UTF-8") from error


def _read_slots(reader: Reader) -> tuple[Slot, ...]:
    slots = []
    for _ in range(reader.integer(4)):
        name = _text(reader)
        dtype, rank = reader.take(2)
        try:
            slots.append(Slot(name, DType(dtype), tuple(reader.integer(8) for _ in range(rank))))
        except ValueError as error:
            raise ProgramError(f"slot {name!r} has an unknown type") from error
    return tuple(slots)
