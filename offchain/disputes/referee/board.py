"""The board of one match: the facts that its events have shown, and nothing else."""

from dataclasses import dataclass, replace

from moot.contracts.model.types import Event, Facts, Pair, Position, start_facts
from moot.contracts.reasons import Phase
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tree import Digest


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

    @property
    def standing(self) -> tuple[Pair, Position]:
        """What tells a match where it stands from one on another chain that has replaced it."""
        return self.pair, self.position


def follow(boards: dict[Pair, Board], event: Event, arithmetic: Arithmetic) -> None:
    """Bring the boards of matches up to date with an event; one of no match changes nothing.

    Raises:
        KeyError: it is of a match that has no board.
    """
    match event.name, event.args[3:]:
        case "MatchStarted", (Position() as position,):
            pair = get_pair(event)
            boards[pair] = Board(pair, position, start_facts(arithmetic))
        case (("Found" | "Moved"), _):
            boards[get_pair(event)] = read_move(boards[get_pair(event)], event)
        case "MatchEnded", _:
            del boards[get_pair(event)]


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


def get_place(board: Board) -> Facts:
    """Return the facts, with the operator on which the verifier has to rule."""
    facts, position = board.facts, board.position
    if position.phase is Phase.VERIFIER:
        return replace(facts, operator=position.index)
    return facts
