"""Keccak-256, the one hash of every commitment, of chunks of data and of the nodes above them.

A leaf of a tree is keccak256(tag || chunk) and an inner node keccak256(tag || left || right), where
the tag is one byte.
"""

from collections.abc import Sequence

import numpy as np
from eth_hash.auto import keccak

from moot.offchain.commitments.keccak_blocks import (
    BLOCK_CHUNKS,
    SUBTREE_LEVELS,
    Leaves,
    hash_blocks,
    hash_top,
)
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES, Bytes
from moot.offchain.native import buffers


def keccak256(message: bytes) -> bytes:
    """Keccak-256 of one message, 32 bytes."""
    return keccak(message)


def hash_chunks(data: Bytes, chunk_bytes: int, tag: int) -> Bytes:
    """Hash every chunk of `data`: digest i is keccak256(tag || chunk i).

    Args:
        data: (bytes,) uint8, contiguous.
        chunk_bytes: size of a chunk, at least 1; the last chunk may be shorter.
        tag: 0 to 255.

    Returns:
        (ceil(bytes / chunk_bytes), 32) uint8.
    """
    digests = buffers.empty((-(-data.size // chunk_bytes), DIGEST_BYTES), np.uint8)
    hash_blocks([Leaves(data)], chunk_bytes, (tag, tag), 0, [digests])
    return digests


def hash_pairs(nodes: Bytes, tag: int) -> Bytes:
    """Hash neighbours together: parent i is keccak256(tag || node 2i || node 2i + 1).

    Args:
        nodes: (n, 32) uint8, contiguous; an odd last node is its own parent, unchanged.
        tag: 0 to 255.

    Returns:
        (ceil(n / 2), 32) uint8.
    """
    pairs = len(nodes) // 2
    parents = buffers.empty((len(nodes) - pairs, DIGEST_BYTES), np.uint8)
    leaves = Leaves(nodes[: 2 * pairs].reshape(-1))
    hash_blocks([leaves], 2 * DIGEST_BYTES, (tag, tag), 0, [parents])
    parents[pairs:] = nodes[2 * pairs :]
    return parents


def hash_subtrees(
    trees: Sequence[Leaves], chunk_bytes: int, tag: int, node_tag: int
) -> list[Bytes]:
    """Return a level of each of some trees over chunks, whose lower levels never leave the cache.

    Threads share the subtrees of all trees, so that many small ones are hashed as one large is.

    Args:
        trees: what is below each tree.
        chunk_bytes: size of a chunk, at least 1, a multiple of 64 if the data are floats; the last
            chunk may be shorter.
        tag: tag of the chunks, 0 to 255.
        node_tag: tag of the inner nodes, as in `hash_pairs`.

    Returns:
        Of each tree (ceil(chunks / 2^SUBTREE_LEVELS), 32) uint8: what `hash_pairs` makes of the
        chunks' digests when it is applied SUBTREE_LEVELS times.
    """
    size = BLOCK_CHUNKS * chunk_bytes
    levels = [np.empty((-(-tree.data.size // size), DIGEST_BYTES), np.uint8) for tree in trees]
    hash_blocks(trees, chunk_bytes, (tag, node_tag), SUBTREE_LEVELS, levels)
    return levels


def hash_up(nodes: Bytes, tag: int) -> bytes:
    """Return the node above all of these, of which there is at least one."""
    while len(nodes) > BLOCK_CHUNKS:
        nodes = hash_pairs(nodes, tag)
    return hash_top(nodes, tag) if len(nodes) > 1 else nodes.tobytes()
