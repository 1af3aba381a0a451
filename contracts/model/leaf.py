"""The leaf: one scalar operation over operands that are proven against the agreed roots."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from contracts.model.types import NO_OPENING, Opening
from contracts.reasons import Reason, Revert
from offchain.arithmetic.functions import DType, Function
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import get_chunk_count, hash_chunk, hash_tensor
from offchain.commitments.tree import Digest, climb, get_height, hash_root
from offchain.errors import CommitmentError, ProgramError
from offchain.programs.encoding import MAX_TENSOR_BYTES, decode_node
from offchain.programs.graph import Kind, Node, Operand, Origin
from offchain.programs.semantics import compute_initial, compute_step

MAX_RANK = 8

ON_CHAIN = frozenset(f for f in Function if f < Function.EXP) | {Function.EXP, Function.RSQRT}
"""The scalar functions that the contract computes."""


@dataclass(frozen=True, slots=True)
class Context:
    """What both sides agree on at a leaf: the roots, the place, the accumulator before it."""

    trace_top: Digest
    operators: int
    before: Digest
    state_slots: int
    data_top: Digest
    batch_slots: int
    steps: int
    step: int
    element: int
    position: int
    accumulator: int


def read_node(encoding: bytes) -> Node:
    """Return the operator of an encoding.

    Raises:
        Revert: it is not canonical, or has no defined meaning.
    """
    try:
        node = decode_node(encoding)
    except ProgramError as error:
        raise Revert(Reason.BAD_OPERATOR) from error
    if node.kind is Kind.RANDOM and node.dtype is not DType.FLOAT32:
        raise Revert(Reason.BAD_OPERATOR)
    return node


def is_known(node: Node) -> bool:
    """Whether the chain can compute this operator's scalar function."""
    return node.function in ON_CHAIN


def compute_leaf(context: Context, node: Node, openings: Sequence[Opening]) -> int:
    """Return the bits that the disputed element or accumulator should have.

    Raises:
        Revert: an operand is missing or not proven, or the chain does not know the function.
    """
    if not is_known(node):
        raise Revert(Reason.UNKNOWN_FUNCTION)

    def fetch(place: int, operand: Operand, index: int) -> int:
        opening = openings[place] if place < len(openings) else NO_OPENING
        return open_element(context, operand, index, opening)

    accumulator = context.accumulator
    if node.kind.folds and context.position == 0:
        accumulator = compute_initial(node, context.element, fetch)
        if node.fold_length == 0:
            return accumulator
    return compute_step(node, context.element, context.position, accumulator, context.step, fetch)


def open_element(context: Context, operand: Operand, index: int, opening: Opening) -> int:
    """Return the bits of a proven element of an operand."""
    header, chunk = opening.header, opening.chunk
    if len(header) < 2 or header[0] != operand.dtype or header[1] > MAX_RANK:
        raise Revert(Reason.BAD_OPERAND)
    if len(header) != 2 + 8 * header[1]:
        raise Revert(Reason.BAD_OPERAND)
    width = DType(header[0]).width
    shape = (int.from_bytes(header[i : i + 8], "big") for i in range(2, len(header), 8))
    elements = prod(shape)
    if elements * width >= MAX_TENSOR_BYTES:
        raise Revert(Reason.BAD_OPERAND)
    count = get_chunk_count(DType(header[0]), elements)
    place, start = divmod(index * width, CHUNK_BYTES)
    if start + width > len(chunk):
        raise Revert(Reason.BAD_OPERAND)
    try:
        leaf = hash_chunk(chunk)
        top = climb(Tag.TENSOR_NODE, leaf, place, count, 0, get_height(count), opening.chunk_proof)
        is_proven = is_agreed(context, operand, hash_tensor(header, top), opening.root_proof)
    except CommitmentError:
        is_proven = False
    if not is_proven:
        raise Revert(Reason.BAD_OPERAND)
    return int.from_bytes(chunk[start : start + width], "little")


def is_agreed(context: Context, operand: Operand, root: Digest, proof: Sequence[Digest]) -> bool:
    """Whether an operand's tensor root is the one under the agreed root of its origin."""
    if operand.origin is Origin.NODE:
        tag, count, index = Tag.TRACE_NODE, context.operators + 1, operand.reference
    elif operand.origin is Origin.STATE:
        tag, count, index = Tag.STATE_NODE, context.state_slots, operand.reference
    else:
        tag, count = Tag.DATA_NODE, context.steps * context.batch_slots
        index = context.step * context.batch_slots + operand.reference
    top = climb(tag, root, index, count, 0, get_height(count), proof)
    if operand.origin is Origin.NODE:
        return top == context.trace_top
    if operand.origin is Origin.STATE:
        return hash_root(Tag.STATE_ROOT, count, top) == context.before
    return top == context.data_top
