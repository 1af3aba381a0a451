"""Keccak-256, the one hash of every commitment, of chunks of data and of the nodes above them.

A leaf of a tree is keccak256(tag || chunk) and an inner node keccak256(tag || left || right), where
the tag is one byte.
"""

from collections.abc import Callable

import numpy as np
from eth_hash.auto import keccak

from offchain.commitments.keccak_lanes import (
    BLOCK_CHUNKS,
    DIGEST_BYTES,
    SUBTREE_LEVELS,
    Bytes,
    hash_range,
)
from offchain.native import buffers
from offchain.native.threads import share

_GRAIN_BYTES = 2**18


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
    _hash_leaves(data, chunk_bytes, tag, digests)
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
    _hash_leaves(nodes[: 2 * pairs].reshape(-1), 2 * DIGEST_BYTES, tag, parents[:pairs])
    parents[pairs:] = nodes[2 * pairs :]
    return parents


def hash_subtrees(
    data: Bytes,
    chunk_bytes: int,
    tag: int,
    node_tag: int,
    encode: Callable[[Bytes], Bytes] = lambda part: part,
) -> Bytes:
    """Return a level of the tree over all chunks, whose lower levels never leave the cache.

    Args:
        data: (bytes,) uint8, contiguous, at least one.
        chunk_bytes: size of a chunk, at least 1; the last chunk may be shorter.
        tag: tag of the chunks, 0 to 255.
        node_tag: tag of the inner nodes, as in `hash_pairs`.
        encode: what is hashed in place of a part of the data; it is of the same size.

    Returns:
        (ceil(chunks / 2^SUBTREE_LEVELS), 32) uint8: what `hash_pairs` makes of the chunks' digests
        when it is applied SUBTREE_LEVELS times.
    """
    chunks = -(-data.size // chunk_bytes)
    subtrees = -(-chunks // BLOCK_CHUNKS)
    tops = np.empty((subtrees, DIGEST_BYTES), np.uint8)
    size = BLOCK_CHUNKS * chunk_bytes

    def work(first: int, stop: int) -> None:
        for subtree in range(first, stop):
            part = encode(data[subtree * size : (subtree + 1) * size])
            top = tops[subtree : subtree + 1]
            if part.size % chunk_bytes:
                top[:] = _hash_ragged(part, chunk_bytes, tag, node_tag)
            else:
                count = part.size // chunk_bytes
                hash_range(part, chunk_bytes, (tag, node_tag), SUBTREE_LEVELS, top, 0, count)

    share(work, subtrees, -(-_GRAIN_BYTES // size))
    return tops


def _hash_ragged(data: Bytes, chunk_bytes: int, tag: int, node_tag: int) -> Bytes:
    """Return the top of a tree whose last chunk is shorter than the others."""
    nodes = hash_chunks(data, chunk_bytes, tag)
    while len(nodes) > 1:
        nodes = hash_pairs(nodes, node_tag)
    return nodes


def _hash_leaves(data: Bytes, chunk_bytes: int, tag: int, digests: Bytes) -> None:
    full = data.size // chunk_bytes
    grain = BLOCK_CHUNKS * max(1, _GRAIN_BYTES // (BLOCK_CHUNKS * chunk_bytes))

    def work(first: int, stop: int) -> None:
        hash_range(data, chunk_bytes, (tag, tag), 0, digests, first, stop)

    share(work, full, grain)
    if full < len(digests):
        tail = data[full * chunk_bytes :]
        hash_range(tail, tail.size, (tag, tag), 0, digests[full:], 0, 1)
