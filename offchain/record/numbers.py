"""The numbers of a record as people read them, and the scalar operation that a leaf computes."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moot.contracts.model.leaf import Evidence, open_element
from moot.contracts.model.types import ZERO, Facts, Terms
from moot.contracts.model.verdicts import get_context
from moot.contracts.reasons import Revert
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.openings import get_arguments
from moot.offchain.errors import ProgramError
from moot.offchain.programs.decoding import decode_node
from moot.offchain.programs.graph import Kind, Node, Operand
from moot.offchain.programs.semantics import (
    Fetch,
    compute_initial,
    compute_step,
    finish,
    get_fold,
    signed,
)
from moot.offchain.record.schema import Scalar, Value


def show_element(dtype: DType, bits: int) -> Value:
    """Return an element as its bits and the number that they mean."""
    match dtype:
        case DType.BOOL:
            number = "true" if bits else "false"
        case DType.FLOAT32 | DType.BFLOAT16:
            whole = bits << 16 if dtype is DType.BFLOAT16 else bits
            number = str(np.float32(struct.unpack("<f", struct.pack("<I", whole))[0]))
        case _:
            number = str(signed(bits, dtype))
    return Value(f"0x{bits:0{2 * dtype.width}x}", number)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of one operator's output; without the operator, only bits are known."""

    arithmetic: Arithmetic
    node: Node | None = None

    def element(self, bits: int) -> Value:
        """Return an element of the output."""
        if self.node is None:
            return Value(hex(bits))
        return show_element(self.node.dtype, bits & ((1 << 8 * self.node.dtype.width) - 1))

    def accumulator(self, bits: int) -> Value:
        """Return an accumulator of the output's folds."""
        if self.node is None or not self.node.kind.folds:
            return self.element(bits)
        fold = get_fold(self.arithmetic, self.node)
        if fold.is_finished:
            return self.element(bits)
        return Value(f"0x{bits:0{2 * fold.width_bytes}x}", fold.describe(bits))

    def claimed(self, facts: Facts, bits: int) -> Value:
        """Return what a side claims at the end of the range in dispute."""
        is_end = facts.high >= facts.fold_length
        return self.element(bits) if is_end else self.accumulator(bits)


def read_operator(encoding: bytes, arithmetic: Arithmetic) -> Node | None:
    """Return the operator of an encoding that a call has shown; None if it is malformed."""
    try:
        return decode_node(encoding, arithmetic)
    except ProgramError:
        return None


@dataclass(frozen=True, slots=True)
class LeafCall:
    """What the call `leaf` shows: whose trees prove the operands, and the proofs."""

    side: int
    encoding: bytes
    before: Digest
    evidence: bytes


def read_scalar(
    arithmetic: Arithmetic, terms: Terms, facts: Facts, shown: LeafCall
) -> Scalar | None:
    """Return the scalar operation that a leaf has computed, its operands proven once more.

    None if the call is not one that the referee accepts.
    """
    node = read_operator(shown.encoding, arithmetic)
    if node is None or shown.side not in {0, 1}:
        return None
    before = None if shown.before == ZERO else shown.before
    evidence = Evidence(shown.evidence)
    context = get_context(terms, facts, shown.side, before)
    known: dict[int, int] = {}

    def fetch(place: int, operand: Operand, index: int) -> int:
        if place not in known:
            known[place] = open_element(context, operand, index, evidence)
        return known[place]

    try:
        return _compute(arithmetic, node, facts, fetch)
    except Revert:
        return None


def _compute(arithmetic: Arithmetic, node: Node, facts: Facts, fetch: Fetch) -> Scalar:
    numbers, accumulator = Numbers(arithmetic, node), facts.low_bits
    if node.kind.folds and facts.low == 0:
        accumulator = compute_initial(arithmetic, node, facts.element, fetch)
    place = (node, facts.element, facts.low, accumulator)
    result = compute_step(arithmetic, *place, facts.step, fetch)
    is_step = node.kind.folds and facts.low < node.fold_length
    shown = numbers.accumulator(accumulator)
    if node.kind.folds and not is_step:
        return Scalar("finish", [shown], numbers.element(result))
    own = finish(arithmetic, node, accumulator)
    bits = get_arguments(node, facts.element, facts.low, own, result, fetch)
    operands = [
        show_element(*each) for each in zip(_list_types(node, len(bits)), bits, strict=True)
    ]
    if is_step:
        operands[-1 if node.kind is Kind.CONTRACT else 0] = shown
    function = Function.FMA if node.kind is Kind.CONTRACT else node.function
    computed = numbers.accumulator(result) if is_step else numbers.element(result)
    return Scalar(function.name.lower(), operands, computed)


def _list_types(node: Node, count: int) -> Sequence[DType]:
    """Return the types of the arguments of an operator's scalar function."""
    if node.kind is Kind.MAP:
        return [operand.dtype for operand in node.operands]
    if node.kind is Kind.CONTRACT:
        return [node.operands[1].dtype, node.operands[2].dtype, node.dtype]
    if node.kind.folds:
        return [node.dtype, node.operands[1].dtype][:count]
    return [node.dtype] * count
