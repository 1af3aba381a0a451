"""What is known of one match: all that its events have shown, and nothing else."""

from dataclasses import dataclass, replace

from contracts.model.types import Event, Facts, Pair, Position, Terms
from contracts.reasons import Phase
from offchain.commitments.tree import Digest


@dataclass(frozen=True, slots=True)
class Board:
    """A match as the side that is to move sees it.

    Attributes:
        pair: the members that play it.
        position: where it stands.
        facts: what it has found out.
        nodes: what the other side has opened last of its tree, if it has.
        data: the chunk or the accumulators that the other side has shown last, if it has.
    """

    pair: Pair
    position: Position
    facts: Facts
    nodes: tuple[Digest, ...] = ()
    data: bytes = b""


def read_move(board: Board, event: Event) -> Board:
    """Return a board after an event of its match, `Found` or `Moved`."""
    match event.args[3:]:
        case (Facts() as facts,):
            return replace(board, facts=facts)
        case (Position() as position, tuple(nodes), bytes(data)):
            return replace(board, position=position, nodes=nodes, data=data)
    raise AssertionError(f"{event.name} is not a move")


def get_pair(event: Event) -> Pair:
    """Return the match of an event of a match."""
    match event.args[:3]:
        case (int(job_id), str(first), str(second)):
            return Pair(job_id, first, second)
    raise AssertionError(f"{event.name} is not of a match")


def get_place(board: Board, terms: Terms) -> Facts:
    """Return the facts, with the place of the tree that is to be entered next.

    The contract notes the place only as the first side enters; it follows from the position.
    """
    facts, position = board.facts, board.position
    if position.entered:
        return facts
    match position.phase:
        case Phase.TRACE if facts.checkpoint:
            return replace(facts, step=facts.first_step + position.index)
        case Phase.INTERVAL | Phase.TRACE:
            first = (position.index - 1) * terms.checkpoint_every
            return replace(facts, checkpoint=position.index, first_step=first, step=first)
        case Phase.TENSOR | Phase.VERIFIER:
            return replace(facts, operator=position.index)
    return facts
