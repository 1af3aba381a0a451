# pragma version 0.4.3
"""
@title Commitments to tensors
@license Apache-2.0
@notice A tensor root is keccak(tag | header | top of its chunks); offchain/commitments/tensors.py
        is the specification.
"""

import tags
import types

# Every second byte, and pair of bytes, of eight bytes.
ODD_BYTES: constant(uint256) = (2**64 - 1) // (2**8 + 1)
ODD_PAIRS: constant(uint256) = (2**64 - 1) // (2**16 + 1)
U32: constant(uint256) = 2**32 - 1
# The longest bytes from which elements are read: the accumulators of one round of a fold.
MAX_BYTES: constant(uint256) = 504
MAX_WIDTH: constant(uint256) = 8
# What comes before the dimensions in the encoding of an operator.
HEAD_BYTES: constant(uint256) = 6

# The top of a tensor without elements: the leaf of an empty chunk.
EMPTY_TOP: constant(bytes32) = keccak256(b"\x01")


@internal
@pure
def hash_chunk(chunk: Bytes[types.CHUNK_BYTES]) -> bytes32:
    """
    @notice Return the leaf of one chunk.
    @param chunk The bytes of its elements.
    @return The leaf.
    """
    return keccak256(concat(tags.CHUNK, chunk))


@internal
@pure
def hash_tensor(header: Bytes[types.MAX_PADDED_HEADER], top: bytes32) -> bytes32:
    """
    @notice Return a tensor root.
    @param header Element type and shape, without padding.
    @param top The node over all chunks.
    @return The root.
    """
    return keccak256(concat(tags.TENSOR_ROOT, header, top))


@internal
@pure
def hash_output(encoding: Bytes[types.MAX_NODE_BYTES], top: bytes32) -> bytes32:
    """
    @notice Return the root of an operator's output.
    @param encoding The operator, which is well-formed: its third and fourth byte are the output's
           type and rank, and from the seventh on are its dimensions.
    @param top The node over all chunks of the output.
    @return The root.
    """
    # A rank is at most 8.
    rank: uint256 = convert(slice(encoding, 3, 1), uint256)
    header: Bytes[types.MAX_NODE_BYTES + 2] = concat(
        slice(encoding, 2, 2), slice(encoding, HEAD_BYTES, rank << 3)
    )
    return keccak256(concat(tags.TENSOR_ROOT, header, top))


@internal
@pure
def get_chunk_count(size: uint256) -> uint256:
    """
    @notice Return the number of chunks of a tensor.
    @param size The bytes of its elements, below 2^64.
    @return The number of chunks.
    """
    return unsafe_div(unsafe_add(size, types.CHUNK_BYTES - 1), types.CHUNK_BYTES)


@internal
@pure
def read_element(elements: Bytes[MAX_BYTES], start: uint256, width: uint256) -> uint256:
    """
    @notice Return the bits of one little-endian element.
    @param elements Bytes of elements.
    @param start Place of the element's first byte; all its bytes exist.
    @param width The element's width, at most MAX_WIDTH.
    @return The bits.
    """
    # With 32 bytes before all others, the word at its end has the element in its last bytes.
    padded: Bytes[MAX_BYTES + 32] = concat(empty(bytes32), elements)
    word: uint256 = convert(extract32(padded, unsafe_add(start, width)), uint256)
    return self.reverse(word, width)


@internal
@pure
def reverse(word: uint256, width: uint256) -> uint256:
    """
    @notice Return the last bytes of a word in the other order.
    @param word The word.
    @param width How many bytes, at most MAX_WIDTH.
    @return The bits.
    """
    bits: uint256 = (word >> 8) & ODD_BYTES | (word & ODD_BYTES) << 8
    bits = (bits >> 16) & ODD_PAIRS | (bits & ODD_PAIRS) << 16
    bits = (bits >> 32) & U32 | (bits & U32) << 32
    return bits >> unsafe_sub(64, width << 3)


@internal
@pure
def find_difference(mine: Bytes[types.CHUNK_BYTES], theirs: Bytes[types.CHUNK_BYTES]) -> uint256:
    """
    @notice Return the place of the first byte in which two chunks of one length differ.
    @param mine A chunk.
    @param theirs Another one.
    @return The place.
    """
    # With 32 bytes behind all others, every word is a whole one.
    padded_mine: Bytes[types.CHUNK_BYTES + 32] = concat(mine, empty(bytes32))
    padded_theirs: Bytes[types.CHUNK_BYTES + 32] = concat(theirs, empty(bytes32))
    place: uint256 = 0
    difference: uint256 = 0
    for _: uint256 in range(types.CHUNK_BYTES // 32):
        difference = convert(
            extract32(padded_mine, place) ^ extract32(padded_theirs, place), uint256
        )
        if difference != 0:
            break
        # At most CHUNK_BYTES.
        place = unsafe_add(place, 32)
    for _: uint256 in range(31):
        if difference >> 248 != 0:
            break
        difference <<= 8
        place = unsafe_add(place, 1)
    return place
