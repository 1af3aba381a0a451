"""The canonical encoding of operators and programs; `decoding.py` reads it.

All integers are big-endian. One program has one encoding.

    node     kind u8 | function u8 | dtype u8 | rank u8 | fold rank u8 | operands u8
             | dimensions (rank + fold rank) x u64 | operand ... | tail
    tail     random: seed u64, stream u32 | scatter: targets u8 ... | others: empty
    operand  origin u8 | dtype u8 | reference u32 | value u64 | rows u8 | row ...
    row      size u64 | divisor u32 | offset i64 | terms u8 | (variable u8, coefficient i64) ...
    slot     name length u16 | name (UTF-8) | dtype u8 | rank u8 | dimensions u64 ...
    program  first line | slots of the state | slots of the batch | operators u32 | operator ...

The first line of a program is "moot program 1", and then, unless that is `ordered` 1, the name and
the version of its arithmetic.
"""

import struct
from collections.abc import Sequence

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import encode_header
from moot.offchain.errors import ProgramError
from moot.offchain.programs.graph import Kind, Node, Operand, Program, Row

NODE = struct.Struct(">6B")
OPERAND = struct.Struct(">BBIQB")
ROW = struct.Struct(">QIqB")
TERM = struct.Struct(">Bq")
TAIL_OF_RANDOM = struct.Struct(">QI")


def encode_node(node: Node) -> bytes:
    """Return a node's canonical encoding.

    Raises:
        ProgramError: a number does not fit into its field.
    """
    try:
        return _encode_node(node)
    except (struct.error, OverflowError, ValueError) as error:
        raise ProgramError(f"an operator has a number that is too large: {error}") from error


def _encode_node(node: Node) -> bytes:
    head = (node.kind, node.function, node.dtype)
    counts = (len(node.shape), len(node.fold_shape), len(node.operands))
    parts = [
        NODE.pack(*head, *counts),
        *(size.to_bytes(8, "big") for size in (*node.shape, *node.fold_shape)),
        *map(_encode_operand, node.operands),
    ]
    if node.kind is Kind.RANDOM:
        parts.append(TAIL_OF_RANDOM.pack(node.seed, node.stream))
    parts.append(bytes(node.targets))
    return b"".join(parts)


def _encode_operand(operand: Operand) -> bytes:
    head = OPERAND.pack(
        operand.origin, operand.dtype, operand.reference, operand.value, len(operand.rows)
    )
    return head + b"".join(map(_encode_row, operand.rows))


def _encode_row(row: Row) -> bytes:
    head = ROW.pack(row.size, row.divisor, row.offset, len(row.terms))
    return head + b"".join(TERM.pack(*term) for term in row.terms)


def encode_layout(program: Program) -> bytes:
    """Return the canonical encoding of the state's and the batch's slots."""
    parts = []
    for slots in (program.state, program.batch):
        parts.append(len(slots).to_bytes(4, "big"))
        for slot in slots:
            name = slot.name.encode()
            parts += [len(name).to_bytes(2, "big"), name, encode_header(slot.dtype, slot.shape)]
    return b"".join(parts)


def encode_name(arithmetic: Arithmetic) -> bytes:
    """Return the name and the version of an arithmetic; nothing for `ordered` 1, the first one."""
    return b"" if arithmetic == ORDERED else str(arithmetic).encode()


def encode_first_line(arithmetic: Arithmetic) -> bytes:
    """Return the first line of a file of a program of an arithmetic, its end included."""
    return b" ".join(filter(None, (b"moot program 1", encode_name(arithmetic)))) + b"\n"


def encode_program(program: Program) -> bytes:
    """Return the file form of a legal program: its encoding, with names and lines for people."""
    encodings = map(encode_node, program.nodes)
    operators = zip(encodings, program.names, program.lines, strict=True)
    return join_program(program.arithmetic, encode_layout(program), [*operators])


def join_program(
    arithmetic: Arithmetic, layout: bytes, operators: Sequence[tuple[bytes, str, str]]
) -> bytes:
    """Return the file form of a program, of which each operator's encoding, name and line come."""
    parts = [encode_first_line(arithmetic), layout, len(operators).to_bytes(4, "big")]
    for encoding, name, line in operators:
        for piece in (encoding, name.encode(), line.encode()):
            parts += [len(piece).to_bytes(2, "big"), piece]
    return b"".join(parts)
