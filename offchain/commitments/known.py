"""The nodes of a tree that are proven without its leaves, and where given leaves are not its own.

A proof of one leaf proves all nodes beside its path, too: whoever has leaves that may be wrong, and
a proof of any one leaf, knows of each node beside the path whether what it has below it is right.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree, get_height, get_width, hash_node
from moot.offchain.errors import CommitmentError


class Nodes(Protocol):
    """The nodes of a tree over leaves that are at hand, right or wrong."""

    def node(self, level: int, index: int) -> Digest:
        """Return node `index` of `level`."""


class KnownNodes:
    """The nodes of a tree that are proven.

    Args:
        tag: tag of the inner nodes.
        count: at least one leaf.
        is_top: says whether a node is the top of the tree.
    """

    def __init__(self, tag: Tag, count: int, is_top: Callable[[Digest], bool]) -> None:
        self.tag = tag
        self.count = count
        self.height = get_height(count)
        self._is_top = is_top
        self._nodes: dict[tuple[int, int], Digest] = {}

    def get(self, level: int, index: int) -> Digest | None:
        """Return a node; None if it is not known."""
        return self._nodes.get((level, index))

    def learn(self, leaf: Digest, index: int, siblings: Sequence[Digest]) -> None:
        """Learn the nodes on the path of a leaf and beside it.

        Raises:
            CommitmentError: the proof does not lead to the top; nothing is learned.
        """
        if index >= self.count:
            raise CommitmentError(f"leaf {index} is outside a tree of {self.count} leaves")
        found: dict[tuple[int, int], Digest] = {(0, index): leaf}
        node, rest = leaf, iter(siblings)
        for level in range(self.height):
            if index ^ 1 < get_width(self.count, level):
                sibling = next(rest, None)
                if sibling is None:
                    raise CommitmentError("the proof is too short")
                found[level, index ^ 1] = sibling
                node = hash_node(self.tag, *((sibling, node) if index & 1 else (node, sibling)))
            index >>= 1
            found[level + 1, index] = node
        if next(rest, None) is not None or not self._is_top(node):
            raise CommitmentError("the proof does not lead to the root")
        self._nodes |= found

    def learn_level(self, level: int, nodes: Sequence[Digest]) -> None:
        """Learn all nodes of a level, and those above it.

        Raises:
            CommitmentError: they do not lead to the top; nothing is learned.
        """
        if len(nodes) != get_width(self.count, level):
            raise CommitmentError(f"there are {len(nodes)} nodes, which is not a level of the tree")
        tree = Tree(self.tag, nodes)
        if not self._is_top(tree.top):
            raise CommitmentError("the nodes do not lead to the root")
        low = min(level, self.height)
        for above in range(tree.height + 1):
            for index in range(get_width(tree.count, above)):
                self._nodes[low + above, index] = tree.node(above, index)

    def list_wrong(self, nodes: Nodes) -> Iterator[tuple[int, int]]:
        """Yield levels and indices of the lowest nodes that leaves at hand do not have, in order.

        Where nothing is known, that is the top. If there are none, all leaves are right.
        """
        if self._is_top(nodes.node(self.height, 0)):
            return
        pending = [(self.height, 0)]
        while pending:
            level, index = pending.pop()
            if self._nodes.get((level, index)) == nodes.node(level, index):
                continue
            below = [
                (level - 1, it)
                for it in (2 * index, 2 * index + 1)
                if level and it < get_width(self.count, level - 1)
            ]
            if below and all(place in self._nodes for place in below):
                pending += reversed(below)
            else:
                yield level, index
