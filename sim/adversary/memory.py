"""The memory of a table: the moves that players have computed, each of which is computed once.

A player's move is a function of what the match shows and of its run; so is what an adversary could
do there. Deadlines are no part of that: a position that comes again later has the same moves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moot.offchain.disputes.play.actors import Player, View
from moot.offchain.disputes.play.players import Move, find_move
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call

Key = tuple[Any, ...]


def describe_board(board: Board) -> Key:
    """Return all of a board on which a move depends."""
    it = board.position
    place = (it.phase, it.mover, it.count, it.level, it.index, it.span, it.entered)
    return (*place, it.nodes, it.facts, board.nodes, board.data)


@dataclass(slots=True)
class Memory:
    """What was computed of a table's positions.

    Attributes:
        moves: of honest players, by the side and the board.
        options: of an adversary, by what is asked and the board.
    """

    moves: dict[Key, Move | None] = field(default_factory=dict)
    options: dict[Key, tuple[Move, ...]] = field(default_factory=dict)

    def find(self, key: Key, make: Callable[[], tuple[Move, ...]]) -> tuple[Move, ...]:
        """Return an adversary's options, which are made the first time."""
        found = self.options.get(key)
        if found is None:
            found = self.options[key] = make()
        return found


@dataclass(frozen=True, slots=True)
class Recalling(Player):
    """A player that computes a move once, and makes it wherever the match stands so again.

    Attributes:
        memory: what it has computed; None for a player that computes every move.
    """

    memory: Memory | None = None

    def move(self, view: View, board: Board) -> Call | None:
        """See Player."""
        position, memory = board.position, self.memory
        if memory is None or view.block > position.deadline:
            return Player.move(self, view, board)
        side = (board.pair.first, board.pair.second).index(self.address)
        key = (side, *describe_board(board))
        if key not in memory.moves:
            memory.moves[key] = find_move(self.run, view.tournament.terms, board, side)
        move = memory.moves[key]
        return None if move is None else self.call(move.call, board.pair, position, *move.args)
