"""The file of a step's rounding log: canonical, bounded, and of one program and step.

    log      "mootlog1" | program root | step u64 | size of what follows u32 | operator ...
    operator number of operators left out before it, then its entries
    entries  their number, less one | (elements left out before it * 2 + 1 if it is up) ...

Operators and elements ascend, and only operators with entries are there. Fixed integers are
big-endian; all others have seven bits in each byte, the lowest first, with 0x80 on all bytes but
the last, which is not zero unless it is the only one. So a log has one encoding. It is not
compressed: what is left are the gaps between random elements, which no compression shortens.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import WrongLog
from moot.offchain.programs.graph import Node, Program
from moot.offchain.programs.rounding.meaning import count_allowed

Entries = tuple[tuple[int, bool], ...]
"""The entries of an operator: (element, whether it goes up), in ascending order of element."""

MAGIC = b"mootlog1"
_ROOT_BYTES, _STEP_BYTES, _SIZE_BYTES = 32, 8, 4
HEADER_BYTES = len(MAGIC) + _ROOT_BYTES + _STEP_BYTES + _SIZE_BYTES
_GROUP_BITS = 7
_MORE = 1 << _GROUP_BITS
_MOST_NUMBER_BYTES = 10


@dataclass(frozen=True, slots=True)
class StepLog:
    """The log of one step: the entries of each operator that has any, by its index."""

    operators: Mapping[int, Entries] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of entries."""
        return sum(map(len, self.operators.values()))


def encode_log(log: StepLog, program: Digest, step: int) -> bytes:
    """Return the file of a step's log, given the root of its program."""
    pieces, before = [], -1
    for operator, entries in sorted(log.operators.items()):
        pieces += [_encode_number(operator - before - 1), encode_entries(entries)]
        before = operator
    body = b"".join(pieces)
    numbers = step.to_bytes(_STEP_BYTES, "big") + len(body).to_bytes(_SIZE_BYTES, "big")
    return MAGIC + program + numbers + body


def encode_entries(entries: Entries) -> bytes:
    """Return the encoding of an operator's entries; nothing if there are none."""
    if not entries:
        return b""
    gaps = (b - a - 1 for a, b in pairwise((-1, *(element for element, _ in entries))))
    numbers = (gap << 1 | up for gap, (_, up) in zip(gaps, entries, strict=True))
    return b"".join(map(_encode_number, (len(entries) - 1, *numbers)))


def decode_log(data: bytes, program: Program, root: Digest, step: int) -> StepLog:
    """Return the log that a file holds.

    Args:
        data: the file's content, which another party has made.
        program: the program.
        root: the program's root.
        step: the number of the step.

    Raises:
        WrongLog: it is no log, or not of this program and step, or names what has no entries.
    """
    if not data.startswith(MAGIC):
        raise WrongLog(f"it does not begin with {MAGIC.decode()}", step)
    if len(data) < HEADER_BYTES:
        raise WrongLog(f"it is cut short in its first {HEADER_BYTES} bytes", step)
    fields, at = [], len(MAGIC)
    for size in (_ROOT_BYTES, _STEP_BYTES, _SIZE_BYTES):
        fields.append(data[at : at + size])
        at += size
    found, found_step, size = fields[0], *(int.from_bytes(f, "big") for f in fields[1:])
    if found != root:
        raise WrongLog(f"it is of the program {found.hex()}, not {root.hex()}", step)
    if found_step != step:
        raise WrongLog(f"it is of step {found_step}", step)
    if len(data) - HEADER_BYTES != size:
        there = len(data) - HEADER_BYTES
        raise WrongLog(f"it declares {size:,} bytes of entries and has {there:,}", step)
    return _decode_operators(_Reader(data, HEADER_BYTES, step), program)


def decode_entries(data: bytes, node: Node, step: int) -> Entries:
    """Return the entries of an operator of a step from their own encoding (`WrongLog`)."""
    if not data:
        return ()
    reader = _Reader(data, 0, step)
    entries = _decode_entries(reader, node)
    if not reader.is_done:
        raise WrongLog("bytes follow the entries of an operator", step)
    return entries


def _decode_operators(reader: "_Reader", program: Program) -> StepLog:
    operators: dict[int, Entries] = {}
    index = -1
    while not reader.is_done:
        index += reader.read() + 1
        if index >= len(program.nodes):
            raise WrongLog(f"it names operator {index:,} of {len(program.nodes):,}", reader.step)
        operators[index] = _decode_entries(reader, program.nodes[index])
    return StepLog(operators)


def _decode_entries(reader: "_Reader", node: Node) -> Entries:
    count, allowed = reader.read() + 1, count_allowed(node)
    if count > allowed:
        problem = f"it has {count:,} entries for an operator that may have {allowed:,}"
        raise WrongLog(problem, reader.step)
    entries, element = [], -1
    for _ in range(count):
        number = reader.read()
        element += (number >> 1) + 1
        entries.append((element, bool(number & 1)))
    if element >= node.elements:
        raise WrongLog(f"it names element {element:,} of {node.elements:,}", reader.step)
    return tuple(entries)


class _Reader:
    """Reads numbers one after another."""

    def __init__(self, data: bytes, at: int, step: int) -> None:
        self._data, self._at, self.step = data, at, step

    @property
    def is_done(self) -> bool:
        """Whether everything has been read."""
        return self._at == len(self._data)

    def read(self) -> int:
        """Return the next number."""
        number = 0
        for place in range(_MOST_NUMBER_BYTES):
            if self.is_done:
                raise WrongLog("it is cut short in the middle of an operator", self.step)
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & ~_MORE) << place * _GROUP_BITS
            if byte < _MORE:
                if byte == 0 and place:
                    break
                return number
        raise WrongLog("it has a number that is not in its shortest form", self.step)


def _encode_number(number: int) -> bytes:
    groups = bytearray()
    while number >= _MORE:
        groups.append(number & ~-_MORE | _MORE)
        number >>= _GROUP_BITS
    groups.append(number)
    return bytes(groups)


def make_log(entries: Iterable[tuple[int, int, bool]]) -> StepLog:
    """Return the log of (operator, element, whether it goes up) in any order."""
    operators: dict[int, list[tuple[int, bool]]] = {}
    for operator, element, up in sorted(entries):
        operators.setdefault(operator, []).append((element, up))
    return StepLog({operator: tuple(found) for operator, found in operators.items()})
