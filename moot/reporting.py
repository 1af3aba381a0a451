"""The report of a dispute that is over: verdict, finding, every move, and gas."""

from collections.abc import Iterable, Sequence

from moot.offchain.chain import Receipt
from moot.offchain.disputes.play.accounts import get_costs, sum_stages
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game, Played
from moot.offchain.disputes.play.locate import Located as Place
from moot.offchain.disputes.play.locate import locate
from moot.offchain.disputes.play.tournament import Ended
from moot.offchain.programs.graph import Program
from moot.offchain.providers.catalogue import HONEST
from moot.results import Gas, Located, Move, Operator, Verdict


def make_verdict(game: Game) -> Verdict:
    """Return the verdict of a game that is over."""
    winners = game.get_winners()
    losers = [loser.name for ended in game.ended for _, loser in list_losers(game, ended)]
    return Verdict(
        winner=winners[0] if winners else None,
        losers=tuple(losers),
        reason=game.ended[-1].ending.name.lower() if game.ended else "agreement",
        located=name_place(find_place(game), game.task.program),
        honest_won=any(p.run.behaviour.is_honest for p in game.players if p.name in winners),
    )


def find_place(game: Game) -> Place:
    """Return the deepest finding of a game's matches about a dishonest player."""
    found = [
        locate(game, ended, side)
        for ended in game.ended
        for side, loser in list_losers(game, ended)
        if loser.run.behaviour.name != HONEST
    ]
    return max(found, key=_depth, default=Place())


def list_losers(game: Game, ended: Ended) -> list[tuple[int, Player]]:
    """Return the players that have lost a match, with their sides."""
    members = (ended.board.pair.first, ended.board.pair.second)
    losers = [(side, game.find_player(members[side])) for side in ended.losing_sides]
    return [(side, player) for side, player in losers if player is not None]


def _depth(place: Place) -> int:
    return sum(
        value is not None for value in (place.step, place.operator, place.element, place.scalar)
    )


def name_place(place: Place, program: Program) -> Located:
    """Return a finding with what its operator is called."""
    operator = None
    if place.operator is not None:
        index, node = place.operator, program.nodes[place.operator]
        line = program.lines[index] if index < len(program.lines) else ""
        operator = Operator(index, program.names[index], node.kind.name.lower(), line)
    return Located(place.step, operator, place.element, place.fold_index, place.scalar)


def make_move(played: Played) -> Move:
    """Return an accepted call with what it cost."""
    receipt = played.receipt
    assert isinstance(receipt, Receipt)
    return Move(
        phase=played.stage,
        player=played.player,
        call=played.call,
        gas_used=receipt.gas_used,
        calldata_bytes=receipt.calldata_bytes,
        gas_calldata=receipt.gas_calldata,
        gas_execution=receipt.gas_execution,
        block=receipt.block,
        transaction=receipt.transaction_hash,
    )


def make_gas(moves: Iterable[Played]) -> Gas:
    """Return the gas of calls, by their stages."""
    return Gas(sum_stages(get_costs(moves)))


def count_rounds(moves: Sequence[Played]) -> int:
    """Return how many calls are moves of a match."""
    outside = {"joining", "payout"}
    return sum(it.stage not in outside and it.call != "start_match" for it in moves)
