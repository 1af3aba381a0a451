# pragma version 0.4.3
"""
@title The operands of a scalar operation, proven against the roots on which both sides agree
@license Apache-2.0
@notice `Evidence` in contracts/model/leaf.py is the specification.
@dev Evidence is long, so it is read where it lies, in the call's data, and never copied.
"""

import ledger
import merkle
import nodes
import tags
import tensors
import types

# Bytes of the header of a tensor of rank 0 and of a chunk.
SHORTEST_PROOF: constant(uint256) = 2 + types.CHUNK_BYTES
# The place in the call's data from which the places of its arguments are counted.
HEAD_AT: constant(uint256) = 4


# The latest proof that led up to the top of the trace or of the state: where from, and where its
# siblings begin in the call's data. No other tree has its tag.
struct Path:
    tag: bytes1
    index: uint256
    root: bytes32
    siblings: uint256


@internal
@view
def find_evidence(head: uint256, size: uint256) -> uint256:
    """
    @notice Return the place in the call's data where the bytes of the evidence begin.
    @dev All of them lie behind the call's heads and within its data, or it reverts: the compiler's
         decoder follows any pointer, and reads zeros behind the end.
    @param head Where the call's heads say at which byte the evidence begins.
    @param size How many bytes it has.
    @return The place behind its length.
    """
    offset: uint256 = convert(self._read(head), uint256)
    self.require(head < unsafe_add(offset, HEAD_AT) and offset < len(msg.data))
    start: uint256 = unsafe_add(offset, HEAD_AT + 32)
    # Evidence is short, and the offset is below the length of the data.
    self.require(unsafe_add(start, size) <= len(msg.data))
    return start


@internal
@view
def _read(start: uint256) -> bytes32:
    # A word of the call's data.
    return convert(slice(msg.data, start, 32), bytes32)


@internal
@pure
def is_before(
    place: types.Before, before: bytes32, proof: DynArray[bytes32, merkle.MAX_HEIGHT]
) -> bool:
    """
    @notice Whether this is the agreed state before the step.
    @param place Where that lies.
    @param before The state.
    @param proof Its proof.
    @return Whether it is so.
    """
    is_whole: bool = False
    top: bytes32 = empty(bytes32)
    height: uint256 = merkle.get_height(place.count)
    is_whole, top = merkle.climb(place.tag, before, place.index, place.count, 0, height, proof)
    return is_whole and ledger.hash_top(top) == place.key


@internal
@pure
def get_variables(
    op: nodes.Operator, context: types.Context
) -> int256[nodes.MAX_VARIABLES]:
    """
    @notice Return the indices of the output and of the fold, if that has any steps.
    @param op The operator.
    @param context The disputed place.
    @return The variables.
    """
    variables: int256[nodes.MAX_VARIABLES] = empty(int256[nodes.MAX_VARIABLES])
    variables = nodes.unravel(variables, context.element, op, 0, op.rank)
    if nodes.get_fold_length(op) == 0:
        return variables
    return nodes.unravel(variables, context.position, op, op.rank, op.fold_rank)


@internal
@view
def open_element(
    operand: uint256, index: uint256, start: uint256, end: uint256
) -> (uint256, bytes32, uint256):
    """
    @notice Return an element of a tensor, by its proof in the call's data.
    @param operand The operand that reads it.
    @param index The element, below 2^63.
    @param start Where the proof begins, at most `end`.
    @param end Where the evidence ends.
    @return The bits, the tensor's root, and the place behind the proof.
    """
    # A width is at most 8.
    self.require(unsafe_add(start, SHORTEST_PROOF) <= end)
    # With the 32 bytes in front of it, the longest header.
    padded: Bytes[types.MAX_PADDED_HEADER] = slice(
        msg.data, unsafe_sub(start, 32), types.MAX_PADDED_HEADER
    )
    rank: uint256 = convert(extract32(padded, 2), uint256) & nodes.U8
    self.require(rank <= nodes.MAX_RANK)
    header: Bytes[types.MAX_PADDED_HEADER] = slice(padded, 32, unsafe_add(2, rank << 3))
    cursor: uint256 = unsafe_add(start, unsafe_add(2, rank << 3))
    # There is a chunk behind the header.
    behind: uint256 = unsafe_add(cursor, types.CHUNK_BYTES)
    self.require(behind <= end)
    dtype: uint256 = nodes.get_dtype(operand)
    width: uint256 = nodes.get_width(dtype)
    size: uint256 = self._get_size(padded, rank, dtype, width)
    offset: uint256 = unsafe_mul(index, width)
    self.require(offset < size)
    place: uint256 = unsafe_div(offset, types.CHUNK_BYTES)
    offset = offset % types.CHUNK_BYTES
    length: uint256 = min(
        unsafe_sub(size, unsafe_mul(place, types.CHUNK_BYTES)), types.CHUNK_BYTES
    )
    chunk: Bytes[types.CHUNK_BYTES] = slice(msg.data, cursor, types.CHUNK_BYTES)
    node: bytes32 = tensors.hash_chunk(slice(chunk, 0, length))
    # The word that ends with the element: there are more than 32 bytes in front of it.
    word: bytes32 = self._read(unsafe_sub(unsafe_add(cursor, unsafe_add(offset, width)), 32))
    # No tensor has more than 2^55 chunks.
    last: uint256 = unsafe_sub(tensors.get_chunk_count(size), 1)
    node, cursor = self._climb(
        tags.TENSOR_NODE, node, place, last, merkle.MAX_HEIGHT, behind, end
    )
    bits: uint256 = tensors.reverse(convert(word, uint256), width)
    return bits, tensors.hash_tensor(header, node), cursor


@internal
@view
def agree(
    context: types.Context,
    operand: uint256,
    root: bytes32,
    known: Path,
    start: uint256,
    end: uint256,
) -> (Path, uint256):
    """
    @notice Refuse a call unless a tensor with this root lies where the operand's should.
    @param context What both sides agree on.
    @param operand The operand.
    @param root The root.
    @param known The proof that this one may meet.
    @param start Where the siblings begin in the call's data.
    @param end Where the evidence ends.
    @return The proof that may be met next, and the place behind the siblings.
    """
    tag: bytes1 = tags.TRACE_NODE
    place: uint256 = 0
    last: uint256 = 0
    tag, place, last = self._get_place(context, operand)
    node: bytes32 = empty(bytes32)
    cursor: uint256 = 0
    if tag == known.tag:
        if place == known.index:
            self.require(root == known.root)
            return known, start
        # Below the first node that both are under, this one is the other's sibling.
        height: uint256 = unsafe_sub(merkle.get_bit_length(place ^ known.index), 1)
        node, cursor = self._climb(tag, root, place, last, height, start, end)
        self.require(node == self._find_sibling(known, last, height))
        return known, cursor
    node, cursor = self._climb(tag, root, place, last, merkle.MAX_HEIGHT, start, end)
    self.require(self._is_agreed(context, operand, node))
    if tag == tags.DATA_NODE:
        return known, cursor
    return Path(tag=tag, index=place, root=root, siblings=start), cursor


@internal
@view
def _climb(
    tag: bytes1,
    leaf: bytes32,
    index: uint256,
    last: uint256,
    height: uint256,
    start: uint256,
    end: uint256,
) -> (bytes32, uint256):
    # The node so high above a leaf of a tree, or its top if that is not so high, by siblings that
    # start there in the call's data; and the place behind these. `last` is the last leaf's index.
    node: bytes32 = leaf
    # As long as a level's last node is another one there is a sibling; then only a node with an odd
    # index has one.
    inner: uint256 = min(height, merkle.get_bit_length(index ^ last))
    cursor: uint256 = unsafe_add(start, inner << 5)
    self.require(cursor <= end)
    for level: uint256 in range(inner, bound=merkle.MAX_HEIGHT):
        if (index >> level) & 1 == 1:
            node = keccak256(
                concat(tag, slice(msg.data, unsafe_add(start, level << 5), 32), node)
            )
        else:
            node = keccak256(
                concat(tag, node, slice(msg.data, unsafe_add(start, level << 5), 32))
            )
    place: uint256 = index >> inner
    for _: uint256 in range(unsafe_sub(height, inner), bound=merkle.MAX_HEIGHT):
        if place == 0:
            break
        if place & 1 == 1:
            self.require(unsafe_add(cursor, 32) <= end)
            node = merkle.hash_node(tag, self._read(cursor), node)
            cursor = unsafe_add(cursor, 32)
        place >>= 1
    return node, cursor


@internal
@view
def _find_sibling(known: Path, last: uint256, height: uint256) -> bytes32:
    # The sibling that a proof has so high, where it has one.
    place: uint256 = known.index
    rest: uint256 = last
    cursor: uint256 = known.siblings
    for _: uint256 in range(height, bound=merkle.MAX_HEIGHT):
        if place | 1 <= rest:
            cursor = unsafe_add(cursor, 32)
        place >>= 1
        rest >>= 1
    return self._read(cursor)


@internal
@pure
def _get_size(
    padded: Bytes[types.MAX_PADDED_HEADER], rank: uint256, dtype: uint256, width: uint256
) -> uint256:
    # The bytes of a tensor's elements, from a header that must be of this type of this width.
    self.require((convert(extract32(padded, 1), uint256) & nodes.U8) == dtype)
    elements: uint256 = 1
    end: uint256 = 2
    for _: uint256 in range(rank, bound=nodes.MAX_RANK):
        end = unsafe_add(end, 8)
        dimension: uint256 = convert(extract32(padded, end), uint256) & nodes.U64
        elements = min(unsafe_mul(elements, dimension), nodes.TOO_LARGE)
    # At most 2^63 times 8.
    size: uint256 = unsafe_mul(elements, width)
    self.require(size < nodes.TOO_LARGE)
    return size


@internal
@pure
def _get_place(context: types.Context, operand: uint256) -> (bytes1, uint256, uint256):
    # Where the tensor of an operand lies: the tag of the tree, its place in it, that of the last.
    origin: uint256 = nodes.get_origin(operand)
    place: uint256 = nodes.get_reference(operand)
    if origin == nodes.FROM_NODE:
        # Behind the operators is the state.
        self.require(place <= context.operators)
        return tags.TRACE_NODE, place, context.operators
    if origin == nodes.FROM_STATE:
        self.require(place < context.state_slots)
        return tags.STATE_NODE, place, unsafe_sub(context.state_slots, 1)
    # Steps are at most 2^32, slots 2^16.
    place = unsafe_add(unsafe_mul(context.step, context.batch_slots), place)
    count: uint256 = unsafe_mul(context.steps, context.batch_slots)
    self.require(place < count)
    return tags.DATA_NODE, place, unsafe_sub(count, 1)


@internal
@pure
def _is_agreed(context: types.Context, operand: uint256, top: bytes32) -> bool:
    # Whether this is the top of the tree that an operand's tensor lies in.
    origin: uint256 = nodes.get_origin(operand)
    if origin == nodes.FROM_NODE:
        return top == context.trace_top
    if origin == nodes.FROM_STATE:
        root: bytes32 = merkle.hash_root(tags.STATE_ROOT, context.state_slots, top)
        return context.has_before and root == context.before
    return top == context.data_top


@internal
@pure
def require(condition: bool):
    """
    @notice Refuse a call unless evidence shows what is read, and nothing else.
    @param condition Whether it does.
    """
    assert condition, "leaf: operand does not match"
