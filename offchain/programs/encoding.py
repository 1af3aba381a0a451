"""The canonical encoding of operators and programs, and its strict decoder.

All integers are big-endian. One program has one encoding; the decoder accepts nothing else, and
checks every length, reference and bound, because programs arrive from other parties.

    node     kind u8 | function u8 | dtype u8 | rank u8 | fold rank u8 | operands u8
             | dimensions (rank + fold rank) x u64 | operand ... | tail
    tail     random: seed u64, stream u32 | scatter: targets u8 ... | others: empty
    operand  origin u8 | dtype u8 | reference u32 | value u64 | rows u8 | row ...
    row      size u64 | divisor u32 | offset i64 | terms u8 | (variable u8, coefficient i64) ...
    slot     name length u16 | name (UTF-8) | dtype u8 | rank u8 | dimensions u64 ...
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from math import prod

from offchain.arithmetic.evaluate import UndefinedTypesError, check_types
from offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from offchain.commitments.tensors import encode_header
from offchain.errors import ProgramError
from offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot

MAX_RANK = 8
MAX_FOLD_RANK = 4
MAX_OPERANDS = 8
MAX_ROWS = 8
MAX_TERMS = 12
MAX_NODE_BYTES = 2_048
MAX_NODES = 1 << 20
MAX_SLOTS = 1 << 16
MAX_TENSOR_BYTES = 1 << 63

_ROW = struct.Struct(">QIqB")
_TERM = struct.Struct(">Bq")
_OPERAND = struct.Struct(">BBIQB")
_NODE = struct.Struct(">6B")
_MAGIC = b"moot program 1\n"


def encode_node(node: Node) -> bytes:
    """Return a node's canonical encoding."""
    parts = [
        _NODE.pack(
            node.kind,
            node.function,
            node.dtype,
            len(node.shape),
            len(node.fold_shape),
            len(node.operands),
        ),
        b"".join(size.to_bytes(8, "big") for size in (*node.shape, *node.fold_shape)),
        *map(_encode_operand, node.operands),
    ]
    if node.kind is Kind.RANDOM:
        parts.append(struct.pack(">QI", node.seed, node.stream))
    parts.append(bytes(node.targets))
    return b"".join(parts)


def _encode_operand(operand: Operand) -> bytes:
    head = _OPERAND.pack(
        operand.origin, operand.dtype, operand.reference, operand.value, len(operand.rows)
    )
    return head + b"".join(map(_encode_row, operand.rows))


def _encode_row(row: Row) -> bytes:
    head = _ROW.pack(row.size, row.divisor, row.offset, len(row.terms))
    return head + b"".join(_TERM.pack(*term) for term in row.terms)


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

    def finish(self) -> None:
        """Refuse trailing bytes."""
        if self._offset != len(self._data):
            raise ProgramError("bytes follow the end of the encoding; it is not canonical")


def decode_node(data: bytes) -> Node:
    """Return the node that these bytes encode; `ProgramError` unless canonical and valid."""
    if len(data) > MAX_NODE_BYTES:
        raise ProgramError(f"an operator of {len(data)} bytes is above {MAX_NODE_BYTES}")
    reader = Reader(data)
    try:
        node = _read_node(reader)
    except ValueError as error:
        raise ProgramError(f"the operator's encoding is invalid: {error}") from error
    reader.finish()
    check_node(node)
    return node


def _read_node(reader: Reader) -> Node:
    kind, function, dtype, rank, fold_rank, count = reader.unpack(_NODE)
    if rank > MAX_RANK or fold_rank > MAX_FOLD_RANK or count > MAX_OPERANDS:
        raise ProgramError("an operator has more dimensions or operands than the arithmetic allows")
    shape = tuple(reader.integer(8) for _ in range(rank))
    fold_shape = tuple(reader.integer(8) for _ in range(fold_rank))
    operands = tuple(_read_operand(reader) for _ in range(count))
    seed = stream = 0
    targets: tuple[int, ...] = ()
    if kind == Kind.RANDOM:
        seed, stream = reader.integer(8), reader.integer(4)
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
    origin, dtype, reference, value, rows = reader.unpack(_OPERAND)
    if rows > MAX_ROWS:
        raise ProgramError(f"an operand has {rows} rows; at most {MAX_ROWS} are allowed")
    return Operand(
        Origin(origin),
        DType(dtype),
        reference,
        value,
        tuple(_read_row(reader) for _ in range(rows)),
    )


def _read_row(reader: Reader) -> Row:
    size, divisor, offset, count = reader.unpack(_ROW)
    if count > MAX_TERMS:
        raise ProgramError(f"a row has {count} terms; at most {MAX_TERMS} are allowed")
    terms = tuple((t[0], t[1]) for t in (reader.unpack(_TERM) for _ in range(count)))
    return Row(size, offset, terms, divisor)


_OPERAND_COUNTS = {
    Kind.MAP: range(1, 4),
    Kind.CONTRACT: range(3, 4),
    Kind.REDUCE: range(2, 3),
    Kind.MOVE: range(1, MAX_OPERANDS + 1),
    Kind.GATHER: range(2, MAX_OPERANDS + 1),
    Kind.SCATTER: range(3, MAX_OPERANDS + 1),
    Kind.RANDOM: range(1),
    Kind.SOURCE: range(1, 2),
    Kind.SINK: range(1, 2),
}


def check_node(node: Node) -> None:
    """Refuse a node that has no defined meaning by itself (`ProgramError`)."""
    _check_sizes(node)
    if len(node.operands) not in _OPERAND_COUNTS[node.kind]:
        raise ProgramError(f"a {node.kind.name.lower()} cannot have {len(node.operands)} operands")
    if bool(node.fold_shape) != node.kind.folds:
        raise ProgramError("a fold shape belongs to folds, and to all of them")
    variables = len(node.shape) + len(node.fold_shape)
    for place, operand in enumerate(node.operands):
        extra = len(node.operands) - 1 if node.kind is Kind.GATHER and place == 0 else 0
        _check_operand(operand, variables + extra)
    _check_function(node)
    if node.kind is Kind.SCATTER:
        if len(node.targets) != len(node.operands) - 2:
            raise ProgramError("a scatter names one target dimension for each index operand")
        if any(target >= len(node.shape) for target in node.targets):
            raise ProgramError("a scatter's target is not a dimension of its output")
    elif node.targets:
        raise ProgramError("only a scatter has targets")


_INTEGERS = frozenset({DType.INT64, DType.INT32})
_SELECTIONS = frozenset({Function.ARGMAX, Function.ARGMIN})
_FOLDED = frozenset(
    {Function.ADD, Function.MUL, Function.MAX, Function.MIN, Function.AND, Function.OR}
)
_FUNCTIONS = {
    Kind.CONTRACT: frozenset({Function.FMA}),
    Kind.REDUCE: _FOLDED | _SELECTIONS,
    Kind.SCATTER: _FOLDED | {Function.COPY},
    Kind.RANDOM: frozenset({Function.UNIFORM}),
}
"""The functions of each kind; a map has any, the kinds that are not named here only COPY."""


def _check_function(node: Node) -> None:
    """Refuse a function that the kind does not have, or that its types do not."""
    types = [operand.dtype for operand in node.operands]
    result = node.dtype
    if node.kind is Kind.MAP:
        _require_types(node.function, types, result)
        return
    if node.function not in _FUNCTIONS.get(node.kind, {Function.COPY}):
        raise ProgramError(f"a {node.kind.name.lower()} cannot fold {node.function.name.lower()}")
    if node.kind is Kind.GATHER:
        values, indices = types[:1], types[1:]
    elif node.kind is Kind.SCATTER:
        values, indices = types[:2], types[2:]
    elif node.function in _SELECTIONS:
        values, indices = types[:1], [DType.INT64 if result is DType.INT64 else DType.BOOL]
    else:
        values, indices = types, []
    if any(value is not result for value in values) or not _INTEGERS.issuperset(indices):
        raise ProgramError(f"a {node.kind.name.lower()} cannot have operands of these types")
    if node.kind is Kind.CONTRACT:
        _require_types(Function.FMA, types, result)
    elif node.kind in {Kind.REDUCE, Kind.SCATTER} and node.function not in {
        *_SELECTIONS,
        Function.COPY,
    }:
        _require_types(node.function, [result, result], result)


def _require_types(function: Function, types: Sequence[DType], result: DType) -> None:
    try:
        check_types(function, types, result)
    except UndefinedTypesError as error:
        raise ProgramError(f"the arithmetic does not define an operator: {error}") from error


def _check_sizes(node: Node) -> None:
    if len(node.shape) > MAX_RANK or len(node.fold_shape) > MAX_FOLD_RANK:
        raise ProgramError(f"shape {node.shape} over {node.fold_shape} has too many dimensions")
    sizes = (node.shape, node.fold_shape, *((r.size for r in o.rows) for o in node.operands))
    if any(prod(s) * node.dtype.width >= MAX_TENSOR_BYTES for s in map(tuple, sizes)):
        raise ProgramError(f"shape {node.shape} over {node.fold_shape} reaches 2^63 bytes")


def is_canonical(dtype: DType, bits: int) -> bool:
    """Whether bits are what an element of this type is committed as."""
    if dtype is DType.BOOL:
        return bits <= 1
    return dtype is not DType.FLOAT32 or bits & 0x7FFFFFFF <= 0x7F800000 or bits == CANONICAL_NAN


def _check_operand(operand: Operand, variables: int) -> None:
    if operand.value >> (8 * operand.dtype.width):
        raise ProgramError("a constant is wider than its type")
    if not is_canonical(operand.dtype, operand.value):
        raise ProgramError("a constant is not in its canonical form: NaN is 0x7fc00000, true is 1")
    if operand.origin is Origin.IMMEDIATE and (operand.rows or operand.reference):
        raise ProgramError("a constant has neither rows nor a reference")
    for row in operand.rows:
        if row.divisor < 1:
            raise ProgramError("a row's divisor is at least 1")
        if any(v >= variables or c == 0 for v, c in row.terms):
            raise ProgramError("a row names a variable that the operator does not have")
        if any(a >= b for (a, _), (b, _) in pairwise(row.terms)):
            raise ProgramError("a row's terms are not in ascending order of variable")


def encode_layout(program: Program) -> bytes:
    """Return the canonical encoding of the state's and the batch's slots."""
    parts = []
    for slots in (program.state, program.batch):
        parts.append(len(slots).to_bytes(4, "big"))
        for slot in slots:
            name = slot.name.encode()
            parts += [len(name).to_bytes(2, "big"), name, encode_header(slot.dtype, slot.shape)]
    return b"".join(parts)


def encode_program(program: Program) -> bytes:
    """Return the file form of a program: its encoding, with names and lines for people."""
    parts = [_MAGIC, encode_layout(program), len(program.nodes).to_bytes(4, "big")]
    for node, name, line in zip(program.nodes, program.names, program.lines, strict=True):
        for piece in (encode_node(node), name.encode(), line.encode()):
            parts += [len(piece).to_bytes(2, "big"), piece]
    return b"".join(parts)


def decode_program(data: bytes) -> Program:
    """Return the program of a file form; `ProgramError` unless it is canonical and valid."""
    reader = Reader(data)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise ProgramError("this is not a program of a version that we know")
    state, batch = _read_slots(reader), _read_slots(reader)
    count = reader.integer(4)
    if count > MAX_NODES:
        raise ProgramError(f"a program of {count} operators is above {MAX_NODES}")
    nodes, names, lines = [], [], []
    for _ in range(count):
        nodes.append(decode_node(reader.take(reader.integer(2))))
        names.append(_text(reader))
        lines.append(_text(reader))
    reader.finish()
    program = Program(state, batch, tuple(nodes), tuple(names), tuple(lines))
    check_program(program)
    return program


def _text(reader: Reader) -> str:
    try:
        return reader.take(reader.integer(2)).decode()
    except UnicodeDecodeError as error:
        raise ProgramError("a name in the program is not UTF-8") from error


def _read_slots(reader: Reader) -> tuple[Slot, ...]:
    count = reader.integer(4)
    if count > MAX_SLOTS:
        raise ProgramError(f"{count} slots are above {MAX_SLOTS}")
    slots = []
    for _ in range(count):
        name = _text(reader)
        dtype, rank = reader.take(2)
        try:
            slots.append(Slot(name, DType(dtype), tuple(reader.integer(8) for _ in range(rank))))
        except ValueError as error:
            raise ProgramError(f"slot {name!r} has an unknown type") from error
    return tuple(slots)


def check_program(program: Program) -> None:
    """Refuse a program whose operators do not fit together (`ProgramError`)."""
    if not program.state or len(program.nodes) < len(program.state):
        raise ProgramError("a program has at least one state slot, and a sink for each")
    if len({program.names[i] for i in range(len(program.nodes))}) != len(program.nodes):
        raise ProgramError("two operators share a name")
    for index, node in enumerate(program.nodes):
        check_node(node)
        if (node.kind is Kind.SINK) != (index >= program.first_sink):
            raise ProgramError("the sinks are the last operators, one for each state slot")
        for operand in node.operands:
            _check_reference(program, index, operand)
    for slot, sink in zip(program.state, program.nodes[program.first_sink :], strict=True):
        if (sink.dtype, sink.shape) != (slot.dtype, slot.shape):
            raise ProgramError(f"the sink of {slot.name} has another shape or type than its slot")


def _check_reference(program: Program, index: int, operand: Operand) -> None:
    if operand.origin is Origin.IMMEDIATE:
        return
    pools: dict[Origin, Sequence[Node | Slot]] = {
        Origin.NODE: program.nodes,
        Origin.STATE: program.state,
        Origin.BATCH: program.batch,
    }
    pool = pools[operand.origin]
    limit = index if operand.origin is Origin.NODE else len(pool)
    if operand.reference >= limit:
        raise ProgramError(f"operator {index} reads what no earlier operator or slot provides")
    target = pool[operand.reference]
    if target.dtype is not operand.dtype or target.elements != prod(r.size for r in operand.rows):
        raise ProgramError(f"operator {index} reads an operand of another shape or type")
