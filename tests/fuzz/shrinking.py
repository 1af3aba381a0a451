"""The reduction of a failing case to a smaller one that fails in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import TypeVar

import numpy as np

from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.errors import ProgramError
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
from tests.fuzz.compare import define
from tests.fuzz.draws import Case

_Item = TypeVar("_Item")
Fails = Callable[[Case], bool]


def shrink(case: Case, fails: Fails, most: int = 400) -> Case:
    """Return a smaller case that fails: the first smaller one that does, again and again.

    Args:
        case: one that fails.
        fails: whether a case does.
        most: how many cases may be tried.
    """
    tried = 0
    while True:
        for smaller in _list_smaller(case):
            tried += 1
            if tried > most:
                return case
            if fails(smaller):
                case = smaller
                break
        else:
            return case


def _list_smaller(case: Case) -> Iterator[Case]:
    """Yield legal cases with less in them, the smallest first."""
    for make in (_isolate, _forget_operators, _drop_slots, _simplify_nodes, _simplify_tensors):
        for smaller in make(case):
            try:
                check_program(smaller.program)
            except ProgramError:
                continue
            yield smaller


def make_program(state: list[Slot], batch: list[Slot], nodes: list[Node]) -> Program:
    """Return the program of some slots and operators."""
    names = tuple(f"n{i}" for i in range(len(nodes)))
    return Program(tuple(state), tuple(batch), tuple(nodes), names, ("",) * len(nodes))


def _isolate(case: Case) -> Iterator[Case]:
    """Yield each operator alone, on slots of the batch that hold what it reads."""
    if len(case.program.nodes) == 2:
        return
    pools = {Origin.NODE: define(case), Origin.STATE: case.state, Origin.BATCH: case.batch}
    for node in case.program.nodes:
        arrays: list[Array] = []
        operands = []
        for operand in node.operands:
            if operand.origin is not Origin.IMMEDIATE:
                arrays.append(pools[operand.origin][operand.reference])
                place = len(arrays) - 1
                operands.append(replace(operand, origin=Origin.BATCH, reference=place))
            else:
                operands.append(operand)
        types = [o.dtype for o in operands if o.origin is Origin.BATCH]
        pairs = zip(types, arrays, strict=True)
        batch = [Slot(f"b{i}", dtype, array.shape) for i, (dtype, array) in enumerate(pairs)]
        alone = replace(node, operands=tuple(operands))
        if node.kind is Kind.SINK:
            alone = replace(alone, kind=Kind.MOVE)
        kept = Slot("s0", node.dtype, node.shape)
        program = make_program([kept], batch, [alone, _keep(alone)])
        yield Case(program, [np.zeros(node.shape, NUMPY_TYPES[node.dtype])], arrays, case.step)


def _keep(node: Node) -> Node:
    """Return the sink of operator 0."""
    rows = tuple(Row(size, 0, ((axis, 1),)) for axis, size in enumerate(node.shape))
    operand = Operand(Origin.NODE, node.dtype, 0, 0, rows)
    return Node(Kind.SINK, Function.COPY, node.dtype, node.shape, (operand,))


def _forget_operators(case: Case) -> Iterator[Case]:
    """Yield the case without one operator, whose readers get what it is from the batch."""
    program = case.program
    if len(program.nodes) == 2:
        return
    defined = define(case)
    for gone in range(program.first_sink):
        slot = Slot(f"given{len(program.batch)}", program.nodes[gone].dtype, defined[gone].shape)
        nodes = [
            _redirect(node, gone, len(program.batch))
            for index, node in enumerate(program.nodes)
            if index != gone
        ]
        smaller = make_program(list(program.state), [*program.batch, slot], nodes)
        yield case._replace(program=smaller, batch=[*case.batch, defined[gone]])


def _redirect(node: Node, gone: int, place: int) -> Node:
    """Return a node that reads a slot of the batch instead of an operator that is gone."""
    operands = tuple(
        replace(o, origin=Origin.BATCH, reference=place)
        if o.origin is Origin.NODE and o.reference == gone
        else o
        for o in node.operands
    )
    return _renumber(replace(node, operands=operands), Origin.NODE, gone)


def _drop_slots(case: Case) -> Iterator[Case]:
    """Yield the case without a slot that nothing reads."""
    program = case.program
    used = {(o.origin, o.reference) for node in program.nodes for o in node.operands}
    state, batch, nodes = list(program.state), list(program.batch), list(program.nodes)
    for place in range(len(batch)):
        if (Origin.BATCH, place) not in used:
            kept = [_renumber(node, Origin.BATCH, place) for node in nodes]
            smaller = make_program(state, _without(batch, place), kept)
            yield case._replace(program=smaller, batch=_without(case.batch, place))
    for place in range(len(state) if len(state) > 1 else 0):
        if (Origin.STATE, place) not in used:
            kept = [_renumber(node, Origin.STATE, place) for node in nodes]
            kept = _without(kept, program.first_sink + place)
            smaller = make_program(_without(state, place), batch, kept)
            yield case._replace(program=smaller, state=_without(case.state, place))


def _without(items: list[_Item], place: int) -> list[_Item]:
    return items[:place] + items[place + 1 :]


def _renumber(node: Node, origin: Origin, gone: int) -> Node:
    """Return a node that finds slots where they are when one is gone."""
    operands = tuple(
        replace(o, reference=o.reference - 1) if o.origin is origin and o.reference > gone else o
        for o in node.operands
    )
    return replace(node, operands=operands)


def _simplify_nodes(case: Case) -> Iterator[Case]:
    """Yield the case with one operator made simpler: smaller folds, fewer operands and terms."""
    program = case.program
    for index, node in enumerate(program.nodes):
        for simpler in _list_simpler(node):
            nodes = (*program.nodes[:index], simpler, *program.nodes[index + 1 :])
            yield case._replace(program=replace(program, nodes=nodes))


def _list_simpler(node: Node) -> Iterator[Node]:
    for axis, size in enumerate(node.fold_shape):
        for smaller in sorted({1, size // 2, size - 1}):
            if 0 < smaller < size:
                shape = (*node.fold_shape[:axis], smaller, *node.fold_shape[axis + 1 :])
                yield replace(node, fold_shape=shape)
    for place, operand in enumerate(node.operands):
        for simpler in _list_simpler_operands(operand):
            operands = (*node.operands[:place], simpler, *node.operands[place + 1 :])
            yield replace(node, operands=operands)


def _list_simpler_operands(operand: Operand) -> Iterator[Operand]:
    if operand.value:
        yield replace(operand, value=0)
    if operand.origin is Origin.IMMEDIATE:
        return
    yield immediate(operand.dtype, operand.value)
    flat = (Row(prod(row.size for row in operand.rows)),)
    if operand.rows != flat:
        yield replace(operand, rows=flat)
    for place, row in enumerate(operand.rows):
        fewer = [
            replace(row, terms=(*row.terms[:term], *row.terms[term + 1 :]))
            for term in range(len(row.terms))
        ]
        for simpler in (*fewer, replace(row, divisor=1), replace(row, offset=0)):
            if simpler != row:
                rows = (*operand.rows[:place], simpler, *operand.rows[place + 1 :])
                yield replace(operand, rows=rows)


def _simplify_tensors(case: Case) -> Iterator[Case]:
    """Yield the case with one tensor made of small numbers in a row, or of zeros."""
    for place, array in enumerate(case.state):
        for other in _list_simpler_tensors(array):
            yield case._replace(state=[*case.state[:place], other, *case.state[place + 1 :]])
    for place, array in enumerate(case.batch):
        for other in _list_simpler_tensors(array):
            yield case._replace(batch=[*case.batch[:place], other, *case.batch[place + 1 :]])


def _list_simpler_tensors(array: Array) -> list[Array]:
    counted: Array = np.arange(array.size).reshape(array.shape).astype(array.dtype)
    simple = [np.zeros_like(array), counted]
    known = [other.tobytes() for other in simple]
    return simple[: known.index(array.tobytes())] if array.tobytes() in known else simple
