"""The rounds by which the largest elements of rows are found, computed by one pass over each row.

A program has no operator for them. It takes the first of the largest, marks it as taken in a mask,
counts what is taken as the least value there is, and takes the next. Once the least is the largest,
all that are left equal it, and the first that is not taken follows. So what the rounds take are the
first elements of each row, sorted from the largest, the first of equals first. The moves that put
the positions of all rounds together are computed with them.

The mask is made with a counter 0, 1, 2, ... that is a tensor like any other: where it is something
else, the operators run one by one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import ClassVar

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.planning.accesses import Sizes
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.planning.readings import Reading, is_identity
from moot.offchain.planning.roles import as_picked, is_broadcast
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program

_LEAST = 0xFF800000
_NOWHERE = (1 << 64) - 1
_LEAST_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Selection(Form):
    """The operators of several rounds.

    Attributes:
        indices: all of them, ascending.
        nodes: likewise.
        taken: the index of the operator that is each round's position.
        joined: the indices of the moves that put positions together.
        shape: the shape of the tensor whose last axis has the rows.
        operands: the accesses to that tensor and to the counter.
    """

    indices: tuple[int, ...]
    nodes: tuple[Node, ...]
    taken: tuple[int, ...]
    joined: tuple[int, ...]
    shape: Sizes
    operands: tuple[Operand, Operand]

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "count",
            "there are at least two rounds, and no more than a row has columns",
            lambda form: _LEAST_ROUNDS <= len(form.taken) <= form.shape[-1],
        ),
        Precondition(
            "types",
            "the tensor is FLOAT32, and the counter INT64",
            lambda form: tuple(o.dtype for o in form.operands) == (DType.FLOAT32, DType.INT64),
        ),
        Precondition(
            "whole",
            "the tensor is read whole, row by row, and has elements",
            lambda form: 0 not in form.shape and _is_whole(form.operands[0], form.shape),
        ),
        Precondition(
            "earlier",
            "the tensor and the counter are there before the first round",
            lambda form: all(_get_index(o) < form.indices[0] for o in form.operands),
        ),
    )


def find_selection(
    program: Program,
    first: int,
    readers: Mapping[int, Sequence[int | None]],
    alone: Collection[int],
) -> Selection | None:
    """Return the rounds that begin with an operator, if they are that.

    Args:
        program: the program.
        first: index of the operator.
        readers: what reads each operator's output, None for someone outside.
        alone: the operators that may not be computed together with others.
    """
    start = program.nodes[first]
    is_start = (start.kind, start.function, start.dtype) == (
        Kind.MAP,
        Function.WHERE,
        DType.FLOAT32,
    )
    is_of_rows = start.elements > 0 and len(start.shape) > 0
    if not is_start or not is_of_rows or not _is_constant(start.operands[0], 0):
        return None
    rounds = _Rounds(program.nodes, start)
    while rounds.match(first + rounds.length):
        pass
    stop = first + rounds.last
    joined = _list_joined(program.nodes, stop, rounds.taken, alone)
    members = range(first, stop + len(joined))
    inner = set(members).difference(rounds.taken, joined)
    is_closed = all(reader in members for index in inner for reader in readers.get(index, [None]))
    is_known = len(rounds.taken) >= _LEAST_ROUNDS and rounds.counter is not None
    if not is_known or not is_closed or any(index in alone for index in members):
        return None
    assert rounds.counter is not None
    return make_form(
        Selection,
        tuple(members),
        tuple(program.nodes[index] for index in members),
        tuple(rounds.taken),
        joined,
        start.shape,
        (start.operands[2], rounds.counter),
    )


def _list_joined(
    nodes: Sequence[Node], first: int, taken: Collection[int], alone: Collection[int]
) -> tuple[int, ...]:
    """Return the moves from an operator on that read nothing but positions."""
    known = set(taken)
    for index in range(first, len(nodes)):
        operands = nodes[index].operands
        is_joined = nodes[index].kind is Kind.MOVE and all(
            operand.origin is Origin.NODE and operand.reference in known for operand in operands
        )
        if not is_joined or index in alone:
            return tuple(range(first, index))
        known.add(index)
    return tuple(range(first, len(nodes)))


class _Rounds:
    """Rounds while they are compared with what they should be.

    Attributes:
        taken: the index of each round's position.
        counter: the access to the counter, None before it is known.
        length: how many operators lie before the next round.
        last: how many of them there are up to the last position.
    """

    def __init__(self, nodes: Sequence[Node], start: Node) -> None:
        self._nodes = nodes
        self._x = start.operands[2]
        self._shape = start.shape
        self._rows = (*start.shape[:-1], 1)
        self._mask: int | None = None
        self.taken: list[int] = []
        self.counter: Operand | None = None
        self.length = self.last = 0

    def match(self, at: int) -> bool:
        """Whether a round begins at an operator, and another may follow it."""
        has_mask = self._mask is not None
        count = 7 if has_mask else 6
        if at + count > len(self._nodes):
            return False
        left, best, value, is_least, *convert, free, taken = range(at, at + count)
        x, shape, rows = self._x, self._shape, self._rows
        if not (
            self._is(left, Function.WHERE, shape, self._mask, _LEAST, x)
            and self._is_position(best, Function.ARGMAX, left)
            and self._is_picked(value, left, best)
            and self._is(is_least, Function.EQ, rows, value, _LEAST)
            and all(self._is(c, Function.CONVERT, shape, self._mask) for c in convert)
            and self._is_position(free, Function.ARGMIN, convert[0] if convert else None)
            and self._is(taken, Function.WHERE, rows, is_least, free, best)
        ):
            return False
        self.taken.append(taken)
        self.last = self.length + count
        now, mask = taken + 1, taken + 2
        self.length += count + 2
        if mask >= len(self._nodes) or not self._is_marked(now, taken):
            return False
        before, self._mask = self._mask, mask
        return self._is(mask, Function.OR, shape, before, now)

    def _is(
        self, index: int, function: Function, shape: Sizes, *operands: int | Operand | None
    ) -> bool:
        """Whether a map is this: of operators, of a tensor, or of 0 where there is no mask."""
        node = self._nodes[index]
        if (node.kind, node.function, node.shape) != (Kind.MAP, function, shape):
            return False
        pairs = zip(node.operands, operands, strict=True)
        return all(_is_operand(found, wanted, shape) for found, wanted in pairs)

    def _is_position(self, index: int, function: Function, read: int | None) -> bool:
        node = self._nodes[index]
        *rows, columns = self._shape
        form = (Kind.REDUCE, function, tuple(rows), (columns,))
        if (node.kind, node.function, node.shape, node.fold_shape) != form:
            return False
        init, operand = node.operands
        return _is_constant(init, _NOWHERE) and _is_operand(operand, read, self._shape)

    def _is_picked(self, index: int, left: int, best: int) -> bool:
        node = self._nodes[index]
        picked = as_picked(node)
        if picked is None or node.shape != self._rows or picked.columns != self._shape[-1]:
            return False
        is_of_left = _is_operand(picked.operand, left, picked.sizes)
        return is_of_left and _is_operand(node.operands[1], best, node.shape)

    def _is_marked(self, index: int, taken: int) -> bool:
        """Whether a map says which elements are at the position that was taken."""
        node = self._nodes[index]
        if (node.kind, node.function, node.shape) != (Kind.MAP, Function.EQ, self._shape):
            return False
        counter, position = node.operands
        if self.counter is None and _is_counter(counter, self._shape):
            self.counter = counter
        is_read = _is_read(position) and position.reference == taken
        *rows, columns = self._shape
        is_of_row = is_read and is_broadcast(position, self._shape, columns, prod(rows))
        return counter == self.counter and is_of_row


def _get_index(operand: Operand) -> int:
    """Return which operator's output an operand is, -1 if it is none's."""
    return operand.reference if operand.origin is Origin.NODE else -1


def _is_read(operand: Operand) -> bool:
    return operand.origin is Origin.NODE


def _is_constant(operand: Operand, bits: int) -> bool:
    return operand.origin is Origin.IMMEDIATE and operand.value == bits


def _is_operand(found: Operand, wanted: int | Operand | None, sizes: Sizes) -> bool:
    """Whether an operand is a whole operator, a whole tensor, the least value, or 0."""
    if wanted is None:
        return _is_constant(found, 0)
    if isinstance(wanted, Operand):
        return found == wanted and _is_read(found) and _is_whole(found, sizes)
    if wanted == _LEAST:
        return _is_constant(found, _LEAST)
    return _is_read(found) and found.reference == wanted and _is_whole(found, sizes)


@cache
def _is_rows_whole(operand: Operand, sizes: Sizes) -> bool:
    return is_identity(operand, sizes)


def _is_whole(operand: Operand, sizes: Sizes) -> bool:
    """Whether an access reads all elements in order."""
    return _is_rows_whole(Operand(Origin.NODE, operand.dtype, 0, 0, operand.rows), sizes)


def _is_counter(operand: Operand, sizes: Sizes) -> bool:
    """Whether an access reads one INT64 for every column."""
    if not _is_read(operand) or operand.dtype is not DType.INT64:
        return False
    reading = Reading(operand, sizes)
    *outer, last = zip(sizes, reading.strided.strides, strict=True)
    is_of_column = last[1] == 1 and not any(stride for size, stride in outer if size > 1)
    return reading.is_view and reading.strided.offset == 0 and is_of_column
