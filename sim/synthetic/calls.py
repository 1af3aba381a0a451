"""The calls that carry a match of known runs to its end, whoever wins it."""

from collections.abc import Mapping

from moot.contracts.model.types import Address, Terms
from moot.offchain.disputes.play.players import decide, find_move
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.port import Call
from moot.offchain.providers.testimony import Testimony


def find_call(runs: Mapping[Address, Testimony], terms: Terms, board: Board) -> Call:
    """Return the next call of a match, by the member that is to move.

    At a leaf or a sink it is the call that ends the match, also where the other side wins by it.

    Args:
        runs: of the members.
        terms: of the job.
        board: the match; the member that is to move has a move, or it is at a leaf or a sink.
    """
    pair, side = board.pair, board.position.mover
    member = (pair.first, pair.second)[side]
    run = runs[member]
    move = find_move(run, terms, board, side) or decide(run, board, side)
    return Call(move.call, member, (pair, board.position, *move.args))
