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
    float_bytes: int = 0,
    encode: Callable[[Bytes], Bytes] = lambda part: part,
) -> Bytes:
    """Return a level of the tree over all chunks, whose lower levels never leave the cache.

    Args:
        data: (bytes,) uint8, contiguous, at least one.
        chunk_bytes: size of a chunk, at least 1, a multiple of 64 if the data are floats; the last
            chunk may be shorter.
        tag: tag of the chunks, 0 to 255.
        node_tag: tag of the inner nodes, as in `hash_pairs`.
        float_bytes: 4 or 2 if the data are floats of this width, otherwise 0.
        encode: returns what is hashed in place of floats among which is a NaN, of the same size.

    Returns:
        (ceil(chunks / 2^SUBTREE_LEVELS), 32) uint8: what `hash_pairs` makes of the chunks' digests
        when it is applied SUBTREE_LEVELS times.
    """
    full = data.size // chunk_bytes
    ragged = full // BLOCK_CHUNKS if data.size % chunk_bytes else None
    size = BLOCK_CHUNKS * chunk_bytes
    subtrees = -(-data.size // size)
    tops = np.empty((subtrees, DIGEST_BYTES), np.uint8)
    kind = chunk_bytes, (tag, node_tag), SUBTREE_LEVELS

    def work(first: int, stop: int) -> None:
        last = min(full, BLOCK_CHUNKS * (stop if ragged is None else min(stop, ragged)))
        begin = first * BLOCK_CHUNKS
        for block in hash_range(data, *kind, tops, begin, last, float_bytes):
            odd = first + block
            part = encode(data[odd * size : min(last * chunk_bytes, (odd + 1) * size)])
            hash_range(part, *kind, tops[odd : odd + 1], 0, part.size // chunk_bytes)
        if ragged is not None and ragged < stop:
            part = data[ragged * size :]
            tops[ragged:] = _hash_ragged(encode(part) if float_bytes else part, *kind[:2])

    share(work, subtrees, -(-_GRAIN_BYTES // size))
    return tops


def _hash_ragged(data: Bytes, chunk_bytes: int, tags: tuple[int, int]) -> Bytes:
    """Return the top of a tree whose last chunk is shorter than the others."""
    nodes = hash_chunks(data, chunk_bytes, tags[0])
    while len(nodes) > 1:
        nodes = hash_pairs(nodes, tags[1])
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
