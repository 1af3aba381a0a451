# pragma version 0.4.3
"""
@title Merkle trees whose proofs are bound to a position and to the number of leaves
@license Apache-2.0
@notice Level 0 holds the leaves. Node i of the next level is keccak(tag | node 2i | node 2i+1),
        and a last node without a right sibling is promoted unchanged. Which nodes exist follows
        from the number of leaves alone, so no hash has a special meaning, and a proof has one
        length. offchain/commitments/tree.py is the specification.
"""

# Bytes of 2^63 - 1, the largest tensor, in chunks: no tree is higher.
MAX_HEIGHT: constant(uint256) = 56
# Levels that one round of the game opens, and the nodes that it shows.
ARITY_LOG2: constant(uint256) = 4
ARITY: constant(uint256) = 16

# The number of bits of i is in bits 4i to 4i + 3, for i up to 15.
BIT_LENGTHS: constant(uint256) = (
    1 << 4 | 2 << 8 | 2 << 12 | 3 << 16 | 3 << 20 | 3 << 24 | 3 << 28 | 4 << 32 | 4 << 36
    | 4 << 40 | 4 << 44 | 4 << 48 | 4 << 52 | 4 << 56 | 4 << 60
)


@internal
@pure
def get_height(count: uint256) -> uint256:
    """
    @notice Return the height of a tree.
    @param count Number of its leaves, at most 2^64.
    @return ceil(log2(count)), and for no leaves any number: no index lies in such a tree.
    """
    # Of no leaves the last index is a very large one.
    return self.get_bit_length(unsafe_sub(count, 1))


@internal
@pure
def get_bit_length(x: uint256) -> uint256:
    """
    @notice Return the number of bits of an index or of a difference of indices.
    @param x Below 2^64; of other numbers any result.
    @return The least n with x < 2^n.
    """
    rest: uint256 = x
    bits: uint256 = 0
    if rest >> 32 != 0:
        rest >>= 32
        bits = 32
    if rest >> 16 != 0:
        rest >>= 16
        bits |= 16
    if rest >> 8 != 0:
        rest >>= 8
        bits |= 8
    if rest >> 4 != 0:
        rest >>= 4
        bits |= 4
    # At most 60, and 4.
    return unsafe_add(bits, (BIT_LENGTHS >> (rest << 2)) & 15)


@internal
@pure
def get_width(count: uint256, level: uint256) -> uint256:
    """
    @notice Return the number of nodes at a level.
    @param count Number of leaves, below 2^64.
    @param level Height of the level.
    @return ceil(count / 2^level).
    """
    # The sum is below 2^65: a level is at most MAX_HEIGHT.
    return unsafe_sub(unsafe_add(count, 1 << level), 1) >> level


@internal
@pure
def get_block(level: uint256) -> uint256:
    """
    @notice Return how many levels a round opens below a node: all such blocks of a path are alike.
    @param level The node's level, at most MAX_HEIGHT.
    @return At most ARITY_LOG2.
    """
    if level == 0:
        return 0
    blocks: uint256 = unsafe_div(unsafe_add(level, ARITY_LOG2 - 1), ARITY_LOG2)
    # `blocks` is 1 at least.
    return unsafe_div(unsafe_sub(unsafe_add(level, blocks), 1), blocks)


@internal
@pure
def hash_node(tag: bytes1, left: bytes32, right: bytes32) -> bytes32:
    """
    @notice Return the parent of two nodes.
    @param tag The tree's tag.
    @param left The left node.
    @param right The right node.
    @return The node above both.
    """
    return keccak256(concat(tag, left, right))


@internal
@pure
def hash_root(tag: bytes1, count: uint256, top: bytes32) -> bytes32:
    """
    @notice Return the root that binds a tree's number of leaves to its top node.
    @param tag The root's tag.
    @param count Number of leaves, below 2^64.
    @param top The single node of the highest level.
    @return The root.
    """
    return keccak256(concat(tag, convert(convert(count, uint64), bytes8), top))


@internal
@pure
def climb(
    tag: bytes1,
    node: bytes32,
    index: uint256,
    count: uint256,
    low: uint256,
    high: uint256,
    siblings: DynArray[bytes32, MAX_HEIGHT],
) -> (bool, bytes32):
    """
    @notice Follow a proof upwards.
    @param tag The tree's tag.
    @param node The node at which the proof begins.
    @param index That node's index at its level.
    @param count The tree's number of leaves, below 2^64.
    @param low That node's level.
    @param high The level at which the proof ends, at most MAX_HEIGHT above `low`.
    @param siblings The proof: one sibling for each level at which the node has one.
    @return Whether the index exists and the proof has the right length, and the node it leads to.
    """
    width: uint256 = self.get_width(count, low)
    if index >= width:
        return False, empty(bytes32)
    place: uint256 = index
    # The place of the level's last node, which has no sibling if it is an even one.
    last: uint256 = unsafe_sub(width, 1)
    result: bytes32 = node
    used: uint256 = 0
    for level: uint256 in range(low, high, bound=MAX_HEIGHT):
        if place & 1 == 1 or place != last:
            if used >= len(siblings):
                return False, empty(bytes32)
            if place & 1 == 1:
                result = keccak256(concat(tag, siblings[used], result))
            else:
                result = keccak256(concat(tag, result, siblings[used]))
            # At most MAX_HEIGHT.
            used = unsafe_add(used, 1)
        place >>= 1
        last >>= 1
    return used == len(siblings), result


@internal
@pure
def is_member(
    tag: bytes1,
    top: bytes32,
    leaf: bytes32,
    index: uint256,
    count: uint256,
    siblings: DynArray[bytes32, MAX_HEIGHT],
) -> bool:
    """
    @notice Whether a tree has this leaf at this place.
    @param tag The tree's tag.
    @param top The tree's single highest node.
    @param leaf The leaf.
    @param index The leaf's index.
    @param count The tree's number of leaves, below 2^64.
    @param siblings The proof.
    @return Whether it is so.
    """
    is_whole: bool = False
    node: bytes32 = empty(bytes32)
    is_whole, node = self.climb(tag, leaf, index, count, 0, self.get_height(count), siblings)
    return is_whole and node == top


@internal
@pure
def fold_children(tag: bytes1, children: DynArray[bytes32, ARITY]) -> bytes32:
    """
    @notice Return the node above an opening.
    @dev After i children, the whole subtree of 2^b of them that bit b of i stands for is in the
         variable of that size; a new child carries into them as one carries into i.
    @param tag The tree's tag.
    @param children One node at least, all at one level and under one node at most four above.
    @return That node.
    """
    one: bytes32 = empty(bytes32)
    two: bytes32 = empty(bytes32)
    four: bytes32 = empty(bytes32)
    eight: bytes32 = empty(bytes32)
    count: uint256 = 0
    for child: bytes32 in children:
        # At most ARITY.
        count = unsafe_add(count, 1)
        if count & 1 == 1:
            one = child
            continue
        pair: bytes32 = keccak256(concat(tag, one, child))
        if count & 2 == 2:
            two = pair
            continue
        pair = keccak256(concat(tag, two, pair))
        if count & 4 == 4:
            four = pair
            continue
        pair = keccak256(concat(tag, four, pair))
        if count & 8 == 8:
            eight = pair
            continue
        return keccak256(concat(tag, eight, pair))
    # From the right: what has no sibling there goes up unchanged.
    subtrees: bytes32[ARITY_LOG2] = [one, two, four, eight]
    node: bytes32 = empty(bytes32)
    is_empty: bool = True
    for b: uint256 in range(ARITY_LOG2):
        if (count >> b) & 1 == 1:
            if is_empty:
                node = subtrees[b]
                is_empty = False
            else:
                node = self.hash_node(tag, subtrees[b], node)
    return node
