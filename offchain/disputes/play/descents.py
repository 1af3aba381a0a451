"""One step down a tree: the first difference in the other side's opening, and the answer to it."""

from collections.abc import Iterable, Sequence

from moot.contracts.model.types import ZERO, Dive, Position
from moot.offchain.commitments.tree import Digest, Tree, get_width


def open_top(tree: Tree) -> Dive:
    """Return the opening of the side that enters a tree first: the nodes below its top."""
    return Dive(0, ZERO, (), tuple(tree.children(tree.height, 0)))


def make_dive(tree: Tree, position: Position, theirs: Sequence[Digest]) -> Dive | None:
    """Return the mover's step below a position, or None if the other side opened what is its own.

    Args:
        tree: the mover's own.
        position: where the match stands; the other side is at node `index` of `level`.
        theirs: what the other side has opened there, `span` levels below.
    """
    level, first = position.level - position.span, position.index << position.span
    if not position.span:
        theirs = (position.nodes[1 - position.mover],)
    own = [tree.node(level, first + place) for place in range(len(theirs))]
    child = find_difference(own, theirs)
    if child is None:
        return None
    siblings = _list_siblings(tree, Tree(tree.tag, theirs), position, child)
    nodes = tuple(tree.children(level, first + child))
    return Dive(child, theirs[child], tuple(siblings), nodes)


def find_difference(mine: Iterable[object], theirs: Iterable[object]) -> int | None:
    """Return the first place in which two sequences of one length differ."""
    pairs = zip(mine, theirs, strict=True)
    return next((place for place, (my, their) in enumerate(pairs) if my != their), None)


def split(values: bytes, width: int) -> list[bytes]:
    """Return the elements of so many bytes each that some bytes are."""
    return [values[start : start + width] for start in range(0, len(values), width)]


def _list_siblings(tree: Tree, opened: Tree, position: Position, child: int) -> list[Digest]:
    """Return the siblings of the path from a child up to the position, as `Dive` wants them."""
    siblings = []
    for up in range(position.span):
        level = position.level - position.span + up
        place = child >> up
        index = (position.index << position.span - up) + place
        if index & 1:
            siblings.append(tree.node(level, index - 1))
        elif index + 1 < get_width(position.count, level):
            siblings += [opened.node(up, place + 1), tree.node(level, index + 1)]
    return siblings
