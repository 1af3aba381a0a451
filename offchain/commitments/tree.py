"""Binary Merkle trees whose proofs are bound to a position and to the number of leaves.

A tree over n leaves has height ceil(log2 n). Level 0 holds the leaves, level l holds
ceil(n / 2^l) nodes; node i of level l + 1 is keccak(tag | node 2i | node 2i+1) of level l, and a
last node without a right sibling is promoted unchanged. Which nodes exist follows from n alone,
so no hash value has a special meaning. Every leaf is itself a tagged hash of something else (a
chunk, a tensor, a state), so that no inner node can pass for one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moot.offchain.commitments.keccak import hash_pairs, keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.errors import CommitmentError

Digest = bytes
"""Thirty-two bytes of keccak-256."""

MAX_ARITY_LOG2 = 4
"""Levels that one round of the game opens: sixteen nodes at most."""


def get_height(count: int) -> int:
    """Return the height of a tree over `count` >= 1 leaves."""
    return (count - 1).bit_length()


def get_width(count: int, level: int) -> int:
    """Return the number of nodes at a level of a tree over `count` leaves."""
    return -(-count >> level) if count else 0


def get_block(level: int) -> int:
    """Return how many levels a round opens below a node: all such blocks of a path are alike."""
    blocks = -(-level // MAX_ARITY_LOG2)
    return -(-level // blocks) if blocks else 0


def hash_node(tag: Tag, left: Digest, right: Digest) -> Digest:
    """Return the parent of two nodes."""
    return keccak256(bytes([tag]) + left + right)


def hash_root(tag: Tag, count: int, top: Digest) -> Digest:
    """Return the root that binds a tree's number of leaves to its top node."""
    return keccak256(bytes([tag]) + count.to_bytes(8, "big") + top)


class Tree:
    """All nodes of one tree, ready to be opened.

    Args:
        tag: tag of the inner nodes.
        leaves: at least one 32-byte leaf, or an (n, 32) uint8 array of them.
    """

    def __init__(self, tag: Tag, leaves: Sequence[Digest] | NDArray[np.uint8]) -> None:
        if isinstance(leaves, np.ndarray):
            level = leaves
        else:
            level = np.frombuffer(b"".join(leaves), np.uint8).reshape(-1, 32)
        self.tag = tag
        self.count = len(level)
        self._levels = [level]
        while len(level) > 1:
            level = hash_pairs(level, tag)
            self._levels.append(level)

    @property
    def height(self) -> int:
        """Number of levels above the leaves."""
        return len(self._levels) - 1

    @property
    def top(self) -> Digest:
        """The single node of the highest level."""
        return bytes(self._levels[-1][0])

    def node(self, level: int, index: int) -> Digest:
        """Return node `index` of `level`."""
        return bytes(self._levels[level][index])

    def children(self, level: int, index: int) -> list[Digest]:
        """Return the nodes that a round opens below a node, from the left; a leaf's is itself."""
        down = get_block(level)
        last = min(index + 1 << down, get_width(self.count, level - down))
        return [self.node(level - down, place) for place in range(index << down, last)]

    def proof(self, index: int, low: int = 0, high: int | None = None) -> list[Digest]:
        """Return the siblings that lead from node `index` of level `low` up to level `high`."""
        siblings = []
        for level in range(low, self.height if high is None else high):
            if index ^ 1 < get_width(self.count, level):
                siblings.append(self.node(level, index ^ 1))
            index >>= 1
        return siblings


def fold_children(tag: Tag, children: Sequence[Digest]) -> Digest:
    """Return the node above an opening of up to sixteen nodes."""
    level = list(children)
    while len(level) > 1:
        pairs = [hash_node(tag, *level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) & ~1 :]
    return level[0]


def climb(
    tag: Tag, node: Digest, index: int, count: int, low: int, high: int, siblings: Sequence[Digest]
) -> Digest:
    """Return the node of level `high` that a proof leads to from node `index` of level `low`.

    Raises:
        CommitmentError: the index is out of range, or the proof has the wrong length.
    """
    width = get_width(count, low)
    if index >= width:
        raise CommitmentError(f"index {index} is outside a level of {width} nodes")
    rest = iter(siblings)
    for _ in range(low, high):
        if index ^ 1 < width:
            sibling = next(rest, None)
            if sibling is None:
                raise CommitmentError("the proof is too short")
            pair = (sibling, node) if index & 1 else (node, sibling)
            node = hash_node(tag, *pair)
        index, width = index >> 1, (width + 1) >> 1
    if next(rest, None) is not None:
        raise CommitmentError("the proof is too long")
    return node


def is_member(
    tag: Tag, top: Digest, leaf: Digest, index: int, count: int, siblings: Sequence[Digest]
) -> bool:
    """Whether `leaf` is leaf `index` of the tree of `count` leaves under `top`."""
    try:
        return climb(tag, leaf, index, count, 0, get_height(count), siblings) == top
    except CommitmentError:
        return False
