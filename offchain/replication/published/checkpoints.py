"""Checkpoints: sha-256 of the weights, Merkle trees over them, and the search in two such trees."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor

from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree, get_height, get_width, hash_node
from moot.offchain.errors import CommitmentError


def cast_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the parameters of a state, cast to binary32: what the published method commits to.

    Neither buffers nor the optimizer's state are among them.
    """
    return {
        name: tensor.detach().to(torch.float32).contiguous()
        for name, tensor in state.items()
        if name.startswith("parameter.")
    }


def hash_weights(weights: Mapping[str, Tensor]) -> Digest:
    """Return the sha-256 of cast weights, in the order of their names."""
    digest = sha256()
    for _, tensor in sorted(weights.items()):
        digest.update(tensor.numpy().tobytes())
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Commitment:
    """A commitment to all checkpoints of a training, its start among them.

    Attributes:
        top: the top node of the tree over their digests.
        count: their number.
    """

    top: Digest
    count: int


Open = Callable[[int, int], Sequence[Digest]]
"""Returns both children of a node, given its level above the leaves and its place there."""


def plant(leaves: Sequence[Digest]) -> tuple[Commitment, Open]:
    """Return the commitment to the digests of checkpoints, and what opens it."""
    tree = Tree(Tag.HISTORY_NODE, leaves)

    def open_node(level: int, index: int) -> Sequence[Digest]:
        return [tree.node(level - 1, place) for place in (2 * index, 2 * index + 1)]

    return Commitment(tree.top, tree.count), open_node


@dataclass(frozen=True, slots=True)
class Difference:
    """The first checkpoint in which two trees differ.

    Attributes:
        checkpoint: its place.
        rounds: how many times both sides opened a node.
        digests: what each side has committed to there.
    """

    checkpoint: int
    rounds: int
    digests: tuple[Digest, Digest]


def search(commitments: Sequence[Commitment], sides: Sequence[Open]) -> Difference | None:
    """Descend two trees of n leaves to the first one that differs, in at most ceil(log2 n) rounds.

    Returns None where the trees are equal.

    Raises:
        CommitmentError: the trees have different numbers of leaves, or a side opens what does not
            hash to what it has shown.
    """
    one, other = commitments
    if one.count != other.count:
        raise CommitmentError(
            f"one side commits to {one.count} checkpoints and the other to {other.count}; "
            "both commit to all of them"
        )
    nodes = one.top, other.top
    if one.top == other.top:
        return None
    index = rounds = 0
    for level in range(get_height(one.count), 0, -1):
        index *= 2
        if index + 1 == get_width(one.count, level - 1):
            continue  # a node without a sibling is its own parent
        rounds += 1
        pairs = [
            _open(side, node, level, index // 2) for side, node in zip(sides, nodes, strict=True)
        ]
        place = int(pairs[0][0] == pairs[1][0])
        index += place
        nodes = pairs[0][place], pairs[1][place]
    return Difference(index, rounds, nodes)


def _open(side: Open, node: Digest, level: int, index: int) -> Sequence[Digest]:
    """Return the children that a side shows of a node."""
    children = side(level, index)
    if len(children) != 2 or hash_node(Tag.HISTORY_NODE, *children) != node:
        raise CommitmentError(f"a side opens node {index} of level {level} to what is not below it")
    return children
