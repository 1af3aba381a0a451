"""What a player knows of its opponent: all that the events of the match have shown."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from contracts.model.types import Event, Match
from contracts.reasons import Phase
from offchain.commitments.tags import Tag
from offchain.commitments.tree import (
    MAX_ARITY_LOG2,
    Digest,
    Tree,
    get_height,
    get_width,
    hash_node,
)


@dataclass(slots=True)
class Board:
    """The defender's openings, as far as the game has come.

    Attributes:
        nodes: the latest opening of a tree.
        data: the latest chunk or fold values.
        trace: every node of the defender's trace that is known, by (level, index).
    """

    nodes: tuple[Digest, ...] = ()
    data: bytes = b""
    trace: dict[tuple[int, int], Digest] = field(default_factory=dict)


def read_board(events: Sequence[Event], match: Match, operators: int) -> Board:
    """Replay a match's events."""
    board = Board()
    count = operators + 1
    level = index = 0
    in_trace = False
    for event in events:
        if len(event.args) < 2 or event.args[1] != match.number:
            continue
        match event.name, event.args[2:]:
            case "Opened", (nodes,):
                board.nodes = tuple(nodes)  # type: ignore[arg-type] # the event's own type
                if in_trace:
                    _learn(board.trace, board.nodes, level, index, count)
            case "Picked", (picked, _):
                level, index = level - min(level, MAX_ARITY_LOG2), int(picked)  # type: ignore[call-overload] # likewise
            case "Entered", (phase, _, top):
                in_trace = phase == Phase.TRACE
                if in_trace:
                    level, index = get_height(count), 0
                    board.trace[level, 0] = top  # type: ignore[assignment] # likewise
            case "ChunkOpened" | "FoldOpened", (data,):
                board.data = data  # type: ignore[assignment] # likewise
    return board


def _learn(
    known: dict[tuple[int, int], Digest],
    nodes: Sequence[Digest],
    level: int,
    index: int,
    count: int,
) -> None:
    """Remember an opening below node `index` of `level`, and the nodes between."""
    down = min(level, MAX_ARITY_LOG2)
    low, first = level - down, index << down
    for offset, node in enumerate(nodes):
        known[low, first + offset] = node
    for above in range(low + 1, level):
        width = get_width(count, above - 1)
        for parent in range(index << (level - above), (index + 1) << (level - above)):
            left, right = (above - 1, 2 * parent), (above - 1, 2 * parent + 1)
            if left in known:
                has_right = right[1] < width
                known[above, parent] = (
                    hash_node(Tag.TRACE_NODE, known[left], known[right])
                    if has_right
                    else known[left]
                )


def prove_in_trace(board: Board, own: Tree, index: int) -> list[Digest]:
    """Return the proof of a leaf that both sides agree on, against the defender's trace.

    Left of the disputed operator the two traces are the same; all else on the way up was opened.
    """
    siblings = []
    for level in range(own.height):
        sibling = index ^ 1
        if sibling < get_width(own.count, level):
            siblings.append(board.trace.get((level, sibling)) or own.node(level, sibling))
        index >>= 1
    return siblings
