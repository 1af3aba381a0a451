"""Keccak-256, the one hash of every commitment, of chunks of data and of the nodes above them.

A leaf of a tree is keccak256(tag || chunk) and an inner node keccak256(tag || left || right), where
the tag is one byte.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from eth_hash.auto import keccak

from offchain.commitments.keccak_blocks import (
    BLOCK_CHUNKS,
    SUBTREE_LEVELS,
    hash_range,
    hash_top,
)
from offchain.commitments.keccak_lanes import DIGEST_BYTES, Bytes
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


class Leaves(NamedTuple):
    """The bytes below a tree.

    Attributes:
        data: (bytes,) uint8, contiguous, at least one.
        float_bytes: 4 or 2 if the data are floats of this width, otherwise 0.
        encode: returns what is hashed in place of floats among which is a NaN, of the same size.
    """

    data: Bytes
    float_bytes: int = 0
    encode: Callable[[Bytes], Bytes] = lambda part: part


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
    kind = chunk_bytes, (tag, node_tag)
    starts = [0, *accumulate(-(-tree.data.size // size) for tree in trees)]
    levels = [np.empty((b - a, DIGEST_BYTES), np.uint8) for a, b in pairwise(starts)]

    def work(first: int, stop: int) -> None:
        for place in range(bisect_right(starts, first) - 1, bisect_left(starts, stop)):
            start = starts[place]
            part = max(first, start) - start, min(stop, starts[place + 1]) - start
            _hash_part(trees[place], *kind, levels[place], *part)

    total = sum(tree.data.size for tree in trees)
    share(work, starts[-1], max(1, -(-_GRAIN_BYTES * starts[-1] // total)) if total else 1)
    return levels


def _hash_part(
    tree: Leaves,
    chunk_bytes: int,
    tags: tuple[int, int],
    level: Bytes,
    first: int,
    stop: int,
) -> None:
    """Compute some nodes of a level that `hash_subtrees` returns."""
    data, float_bytes, encode = tree
    size = BLOCK_CHUNKS * chunk_bytes
    full = data.size // chunk_bytes
    ragged = full // BLOCK_CHUNKS if data.size % chunk_bytes else stop
    begin, last = first * BLOCK_CHUNKS, min(full, BLOCK_CHUNKS * min(stop, ragged))
    kind = chunk_bytes, tags, SUBTREE_LEVELS
    for block in hash_range(data, *kind, level, begin, last, float_bytes):
        odd = first + block
        part = encode(data[odd * size : min(last * chunk_bytes, (odd + 1) * size)])
        hash_range(part, *kind, level[odd : odd + 1], 0, part.size // chunk_bytes)
    if ragged < stop:
        part = data[ragged * size :]
        level[ragged:] = _hash_ragged(encode(part) if float_bytes else part, chunk_bytes, tags)


def hash_up(nodes: Bytes, tag: int) -> bytes:
    """Return the node above all of these, of which there is at least one."""
    while len(nodes) > BLOCK_CHUNKS:
        nodes = hash_pairs(nodes, tag)
    return hash_top(nodes, tag)


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
