"""Proofs of trees that nobody has: any siblings lead from a leaf to a top, which is then agreed."""

from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, climb, get_height


def draw_siblings(count: int) -> tuple[Digest, ...]:
    """Return the siblings of a place of a full tree of so many leaves: one at every level."""
    return tuple(keccak256(bytes([level])) for level in range(get_height(count)))


def compute_top(tag: Tag, leaf: Digest, index: int, count: int) -> Digest:
    """Return the top to which those siblings lead from a leaf.

    Args:
        tag: of the inner nodes.
        leaf: the leaf.
        index: its place, which has a sibling at every level.
        count: leaves of the tree.
    """
    return climb(tag, leaf, index, count, 0, get_height(count), draw_siblings(count))
