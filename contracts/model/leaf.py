"""The leaf: one scalar operation over operands that are proven against the agreed roots."""

from dataclasses import dataclass, field
from math import prod

from moot.contracts.model.checks import require
from moot.contracts.reasons import Reason, Revert
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import get_chunk_count, hash_chunk, hash_tensor
from moot.offchain.commitments.tree import Digest, hash_node, hash_root
from moot.offchain.errors import ProgramError
from moot.offchain.programs.decoding import decode_node
from moot.offchain.programs.graph import Node, Operand, Origin
from moot.offchain.programs.limits import MAX_RANK, MAX_TENSOR_BYTES
from moot.offchain.programs.semantics import compute_initial, compute_step, get_fold

SHORTEST_PROOF = 2 + CHUNK_BYTES
"""Bytes of the header of a tensor of rank 0 and of a chunk."""


@dataclass(frozen=True, slots=True)
class Context:
    """What both sides agree on at a leaf: the roots, the place, the accumulator before it.

    `before`, the state before the step, is None if it has not been shown.
    """

    trace_top: Digest
    operators: int
    before: Digest | None
    state_slots: int
    data_top: Digest
    batch_slots: int
    steps: int
    step: int
    element: int
    position: int
    accumulator: int


def read_node(encoding: bytes, arithmetic: Arithmetic) -> Node:
    """Return the operator of an encoding.

    Raises:
        Revert: it is not canonical, or has no defined meaning.
    """
    try:
        return decode_node(encoding, arithmetic)
    except ProgramError as error:
        raise Revert(Reason.BAD_OPERATOR) from error


@dataclass(slots=True)
class Evidence:
    """The proofs of the elements that a leaf reads, in that order, as bytes.

    Each is the tensor's header, the element's chunk, followed by zeros if it is shorter than
    others, the siblings from there up to the tensor root, and those up to an agreed root, or to
    where they meet `known`, the latest proof in the same tree that led up to it.
    """

    data: bytes
    cursor: int = 0
    known: "Path | None" = None

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        piece = self.data[self.cursor : self.cursor + size]
        require(len(piece) == size, Reason.BAD_OPERAND)
        self.cursor += size
        return piece

    def climb(self, node: Digest, index: int, count: int) -> Digest:
        """Return the top of a tensor of `count` chunks over the leaf of this one."""
        width = count
        while width > 1:
            if index ^ 1 < width:
                node = _join(Tag.TENSOR_NODE, node, self.take(len(node)), index)
            index, width = index >> 1, (width + 1) >> 1
        return node

    def agree(self, place: "Place", root: Digest) -> None:
        """Refuse unless the tensor with this root is the one that is agreed to lie there."""
        require(place.index < place.count, Reason.BAD_OPERAND)
        known = self.known if self.known and self.known.place.tag is place.tag else None
        if known and known.place.index == place.index:
            require(root == known.root, Reason.BAD_OPERAND)
            return
        path = Path(place, root)
        node, index, width, level = root, place.index, place.count, 0
        while width > 1:
            if known and index ^ 1 == known.place.index >> level:
                require(node == known.siblings[level], Reason.BAD_OPERAND)
                return
            if index ^ 1 < width:
                path.siblings[level] = self.take(len(node))
                node = _join(place.tag, node, path.siblings[level], index)
            index, width, level = index >> 1, (width + 1) >> 1, level + 1
        is_agreed = place.top is not None and place.finish(node) == place.top
        require(is_agreed, Reason.BAD_OPERAND)
        if place.tag is not Tag.DATA_NODE:
            self.known = path


def _join(tag: Tag, node: Digest, sibling: Digest, index: int) -> Digest:
    """Return the parent of the node at this index."""
    return hash_node(tag, sibling, node) if index & 1 else hash_node(tag, node, sibling)


def compute_leaf(arithmetic: Arithmetic, context: Context, node: Node, data: bytes) -> int:
    """Return the bits that the disputed element or accumulator should have in an arithmetic.

    Raises:
        Revert: an operand is missing or not proven, or the evidence is longer than what is read.
    """
    evidence = Evidence(data)

    def fetch(place: int, operand: Operand, index: int) -> int:
        del place  # evidence comes in the order in which it is read
        return open_element(context, operand, index, evidence)

    accumulator = context.accumulator
    if node.kind.folds:
        accumulator &= (1 << 8 * get_fold(arithmetic, node).width_bytes) - 1
        if context.position == 0:
            accumulator = compute_initial(arithmetic, node, context.element, fetch)
    place = (arithmetic, node, context.element, context.position, accumulator)
    computed = compute_step(*place, context.step, fetch)
    require(evidence.cursor == len(data), Reason.BAD_OPERAND)
    return computed


def open_element(context: Context, operand: Operand, index: int, evidence: Evidence) -> int:
    """Return the bits of a proven element of an operand."""
    require(len(evidence.data) - evidence.cursor >= SHORTEST_PROOF, Reason.BAD_OPERAND)
    dtype, rank = head = evidence.take(2)
    require(rank <= MAX_RANK, Reason.BAD_OPERAND)
    shape = evidence.take(8 * rank)
    require(dtype == operand.dtype, Reason.BAD_OPERAND)
    elements = prod(int.from_bytes(shape[i : i + 8], "big") for i in range(0, len(shape), 8))
    width = operand.dtype.width
    require(elements * width < MAX_TENSOR_BYTES and index < elements, Reason.BAD_OPERAND)
    place, start = divmod(index * width, CHUNK_BYTES)
    size = min(CHUNK_BYTES, elements * width - place * CHUNK_BYTES)
    chunk = evidence.take(CHUNK_BYTES)[:size]
    count = get_chunk_count(operand.dtype, elements)
    top = evidence.climb(hash_chunk(chunk), place, count)
    evidence.agree(locate_operand(context, operand), hash_tensor(head + shape, top))
    return int.from_bytes(chunk[start : start + width], "little")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: leaf `index` of `count` of an agreed tree; top None: not shown."""

    tag: Tag
    index: int
    count: int
    top: Digest | None

    def finish(self, top: Digest) -> Digest:
        """Return what is agreed of a tree with this top: a state's is its root."""
        if self.tag is Tag.STATE_NODE:
            return hash_root(Tag.STATE_ROOT, self.count, top)
        return top


@dataclass(frozen=True, slots=True)
class Path:
    """A proof up to the top of the trace or of the state: where from, and its siblings by level."""

    place: Place
    root: Digest
    siblings: dict[int, Digest] = field(default_factory=dict)


def locate_operand(context: Context, operand: Operand) -> Place:
    """Return where an operand's tensor lies."""
    reference = operand.reference
    if operand.origin is Origin.NODE:
        return Place(Tag.TRACE_NODE, reference, context.operators + 1, context.trace_top)
    if operand.origin is Origin.STATE:
        return Place(Tag.STATE_NODE, reference, context.state_slots, context.before)
    slots = context.batch_slots
    index, count = context.step * slots + reference, context.steps * slots
    return Place(Tag.DATA_NODE, index, count, context.data_top)
