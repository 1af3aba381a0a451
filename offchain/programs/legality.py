"""The definition of a legal program: every dispute about it can be played to its leaf.

`check_node` is exactly as strict as the decoder of the leaf contract: an operator is legal if the
contract accepts its encoding. `check_program` adds what only the whole program shows, so that each
operand of each operator is a tensor that the contract can be shown. `docs/reference/commitments.md`
says both in words.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from moot.offchain.arithmetic import bfloat16
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import UndefinedTypesError, check_types
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.errors import ProgramError
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot
from moot.offchain.programs.limits import (
    MAX_FOLD_RANK,
    MAX_NODE_BYTES,
    MAX_OPERANDS,
    MAX_OPERATORS,
    MAX_RANK,
    MAX_SLOTS,
    MAX_TENSOR_BYTES,
    MAX_TERMS,
    MAX_TEXT_BYTES,
)

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


_RESULTS = {
    Kind.CONTRACT: (DType.FLOAT32, DType.INT64, DType.INT32),
    Kind.RANDOM: (DType.FLOAT32,),
}
"""The types of the results of kinds that do not have all."""


def is_canonical(dtype: DType, bits: int) -> bool:
    """Whether bits are what an element of this type is committed as."""
    if dtype is DType.BOOL:
        return bits <= 1
    if dtype is DType.BFLOAT16:
        return bits & 0x7FFF <= 0x7F80 or bits == bfloat16.NAN
    return dtype is not DType.FLOAT32 or bits & 0x7FFFFFFF <= 0x7F800000 or bits == CANONICAL_NAN


def check_node(node: Node, arithmetic: Arithmetic) -> None:
    """Refuse an operator that is not legal by itself in an arithmetic (`ProgramError`)."""
    size = len(encode_node(node))
    if size > MAX_NODE_BYTES:
        raise ProgramError(f"an operator of {size} bytes is above {MAX_NODE_BYTES}")
    if len(node.operands) not in _OPERAND_COUNTS[node.kind]:
        raise ProgramError(f"a {node.kind.name.lower()} cannot have {len(node.operands)} operands")
    if bool(node.fold_shape) != node.kind.folds:
        raise ProgramError("a fold shape belongs to folds, and to all of them")
    _check_shape(node.shape, node.dtype, MAX_RANK)
    _check_shape(node.fold_shape, node.dtype, MAX_FOLD_RANK)
    variables = len(node.shape) + len(node.fold_shape)
    for place, operand in enumerate(node.operands):
        extra = len(node.operands) - 1 if node.kind is Kind.GATHER and place == 0 else 0
        _check_operand(operand, variables + extra, node.dtype)
    _check_function(node, arithmetic)
    _check_tail(node)


def _check_shape(shape: Sequence[int], dtype: DType, max_rank: int) -> None:
    if len(shape) > max_rank:
        raise ProgramError(f"shape {tuple(shape)} has more than {max_rank} dimensions")
    if prod(shape) * dtype.width >= MAX_TENSOR_BYTES:
        raise ProgramError(f"shape {tuple(shape)} reaches 2^63 bytes")


def _check_operand(operand: Operand, variables: int, dtype: DType) -> None:
    """Refuse an operand of an operator of so many variables and this type of output."""
    if operand.value >> (8 * operand.dtype.width):
        raise ProgramError("a constant is wider than its type")
    if not is_canonical(operand.dtype, operand.value):
        raise ProgramError(
            "a constant is not in its canonical form: NaN is 0x7fc00000 or 0x7fc0, true is 1"
        )
    if operand.origin is Origin.IMMEDIATE and (operand.rows or operand.reference):
        raise ProgramError("a constant has neither rows nor a reference")
    _check_shape([row.size for row in operand.rows], dtype, MAX_RANK)
    for row in operand.rows:
        _check_row(row, variables)


def _check_row(row: Row, variables: int) -> None:
    if row.divisor < 1:
        raise ProgramError("a row's divisor is at least 1")
    if len(row.terms) > MAX_TERMS:
        raise ProgramError(f"a row has {len(row.terms)} terms; at most {MAX_TERMS} are allowed")
    if any(v >= variables or c == 0 for v, c in row.terms):
        raise ProgramError("a row names a variable that the operator does not have")
    if any(a >= b for (a, _), (b, _) in pairwise(row.terms)):
        raise ProgramError("a row's terms are not in ascending order of variable")


def _check_function(node: Node, arithmetic: Arithmetic) -> None:
    """Refuse a function that the kind does not have, or that its types do not."""
    types = [operand.dtype for operand in node.operands]
    result = node.dtype
    if node.kind is Kind.MAP:
        _require_types(node.function, types, result)
        return
    if node.function not in _FUNCTIONS.get(node.kind, {Function.COPY}):
        raise ProgramError(f"a {node.kind.name.lower()} cannot fold {node.function.name.lower()}")
    values, indices = types, list[DType]()
    if node.kind is Kind.GATHER:
        values, indices = types[:1], types[1:]
    elif node.kind is Kind.SCATTER:
        values, indices = types[:2], types[2:]
    elif node.function in _SELECTIONS:
        values, indices = types[:1], [DType.INT64 if result is DType.INT64 else DType.BOOL]
    elif node.kind is Kind.CONTRACT and types[1:] == [arithmetic.find_short(result)] * 2:
        values = types[:1]
    if any(value is not result for value in values) or not _INTEGERS.issuperset(indices):
        raise ProgramError(f"a {node.kind.name.lower()} cannot have operands of these types")
    if result not in (results := _RESULTS.get(node.kind, tuple(DType))):
        names = " or ".join(dtype.name for dtype in results)
        raise ProgramError(f"a {node.kind.name.lower()} is of {names}, not of {result.name}")
    if node.function in _FOLDED:
        _require_types(node.function, [result, result], result)


def _require_types(function: Function, types: Sequence[DType], result: DType) -> None:
    try:
        check_types(function, types, result)
    except UndefinedTypesError as error:
        raise ProgramError(f"the arithmetic does not define an operator: {error}") from error


def _check_tail(node: Node) -> None:
    """Refuse targets of a scatter that are not dimensions, and what only other kinds have."""
    if node.kind is not Kind.RANDOM and (node.seed or node.stream):
        raise ProgramError("only a random operator has a seed and a stream")
    if len(node.targets) != (len(node.operands) - 2 if node.kind is Kind.SCATTER else 0):
        raise ProgramError("a scatter, and nothing else, has a target for each index operand")
    if any(target >= len(node.shape) for target in node.targets):
        raise ProgramError("a scatter's target is not a dimension of its output")


def check_counts(state_slots: int, batch_slots: int, operators: int) -> None:
    """Refuse a program of so many slots and operators if no job can have it (`ProgramError`)."""
    if state_slots < 1 or operators < state_slots:
        raise ProgramError("a program has at least one state slot, and a sink for each")
    if max(state_slots, batch_slots) > MAX_SLOTS:
        raise ProgramError(f"{max(state_slots, batch_slots)} slots are above {MAX_SLOTS}")
    if operators > MAX_OPERATORS:
        raise ProgramError(f"a program of {operators} operators is above {MAX_OPERATORS}")


def check_program(program: Program) -> None:
    """Refuse a program that is not legal (`ProgramError`)."""
    check_counts(len(program.state), len(program.batch), len(program.nodes))
    _check_texts(program)
    for slot in (*program.state, *program.batch):
        _check_shape(slot.shape, slot.dtype, MAX_RANK)
        _check_extent(slot)
    for index, node in enumerate(program.nodes):
        check_node(node, program.arithmetic)
        _check_extent(node)
        if (node.kind is Kind.SINK) != (index >= program.first_sink):
            raise ProgramError("the sinks are the last operators, one for each state slot")
        for operand in node.operands:
            _check_reference(program, index, operand)
    for slot, sink in zip(program.state, program.nodes[program.first_sink :], strict=True):
        if (sink.dtype, sink.shape) != (slot.dtype, slot.shape):
            raise ProgramError(f"the sink of {slot.name} has another shape or type than its slot")


def _check_extent(tensor: Node | Slot) -> None:
    """Refuse a tensor without elements whose other dimensions no array can have."""
    extent = prod(max(size, 1) for size in tensor.shape)
    if extent * tensor.dtype.width >= MAX_TENSOR_BYTES:
        raise ProgramError(f"shape {tensor.shape} reaches 2^63 bytes but for a dimension of 0")


def _check_texts(program: Program) -> None:
    """Refuse names that are not unique, and names and lines that no file can have."""
    if not len(program.nodes) == len(program.names) == len(program.lines):
        raise ProgramError("every operator has one name and one line")
    if len(set(program.names)) != len(program.names):
        raise ProgramError("two operators share a name")
    slots = [[slot.name for slot in slots] for slots in (program.state, program.batch)]
    if any(len(set(names)) != len(names) for names in slots):
        raise ProgramError("two slots share a name")
    for text in (*program.names, *program.lines, *slots[0], *slots[1]):
        if len(text.encode(errors="replace")) > MAX_TEXT_BYTES or not _is_unicode(text):
            raise ProgramError(f"a name is not UTF-8 of at most {MAX_TEXT_BYTES} bytes")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


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
