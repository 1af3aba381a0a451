# pragma version 0.4.3
"""
@title Commitments to tensors
@license Apache-2.0
@notice A tensor root is keccak(tag | header | top of its chunks); offchain/commitments/tensors.py
        is the specification.
"""

import tags
import types

BYTE: constant(uint256) = 2**8 - 1
# The longest bytes from which elements are read: the accumulators of one round of a fold.
MAX_BYTES: constant(uint256) = 504
MAX_WIDTH: constant(uint256) = 8

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
def hash_tensor(header: Bytes[types.MAX_HEADER_BYTES], top: bytes32) -> bytes32:
    """
    @notice Return a tensor root.
    @param header Element type and shape.
    @param top The node over all chunks.
    @return The root.
    """
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
    rest: uint256 = convert(extract32(padded, unsafe_add(start, width)), uint256)
    bits: uint256 = 0
    for _: uint256 in range(width, bound=MAX_WIDTH):
        bits = (bits << 8) | (rest & BYTE)
        rest >>= 8
    return bits
