"""The report of a dispute as one JSON object: verdict, finding, every move, gas and money."""

from typing import Any

from moot.offchain.chain import Receipt
from moot.offchain.disputes.accounts import (
    calculate_fees,
    count_burned,
    get_costs,
    sum_stages,
)
from moot.offchain.disputes.actors import Player
from moot.offchain.disputes.game import Game, Played
from moot.offchain.disputes.locate import Located, locate
from moot.offchain.disputes.tournament import Ended
from moot.offchain.programs.graph import Program
from moot.offchain.providers.catalogue import HONEST
from moot.session import Session


def make_report(session: Session) -> dict[str, Any]:
    """Return what `moot dispute --json` prints; amounts are wei, bit patterns hexadecimal."""
    located = get_located(session)
    gas = sum_stages(get_costs(session.moves))
    return {
        "verdict": _verdict(session),
        "behaviours": {name: run.behaviour.describe() for name, run in session.runs.items()},
        "arithmetic": str(session.task.program.arithmetic),
        "compared_with_torch": not session.setting.trust_capture,
        "located": _located(located, session.task.program),
        "transactions": [_move(played) for played in session.moves],
        "gas": {"total": sum(gas.values()), "by_phase": gas},
        "moves": sum(_is_round(played) for played in session.moves),
        "ledger": _ledger(session),
        "roots": {
            "program": session.task.commitment.header.root.hex(),
            "start": session.task.start_root.hex(),
            "data": session.task.data_root.hex(),
            "claims": {name: run.history_root.hex() for name, run in session.runs.items()},
            "final": {name: run.roots[-1].hex() for name, run in session.runs.items()},
        },
        "seconds": {
            "run": round(session.run_seconds, 3),
            "trace": round(session.play_seconds - session.chain_seconds, 3),
            "chain": round(session.chain_seconds, 3),
        },
    }


def get_located(session: Session) -> Located:
    """Return the deepest finding of the game's matches about a dishonest player."""
    game = session.game
    found = [
        locate(game, ended, side)
        for ended in game.ended
        for side, loser in list_losers(game, ended)
        if loser.run.behaviour.name != HONEST
    ]
    return max(found, key=_depth, default=Located())


def list_losers(game: Game, ended: Ended) -> list[tuple[int, Player]]:
    """Return the players that have lost a match, with their sides."""
    members = (ended.board.pair.first, ended.board.pair.second)
    losers = [(side, game.find_player(members[side])) for side in ended.losing_sides]
    return [(side, player) for side, player in losers if player is not None]


def _depth(located: Located) -> int:
    return sum(
        value is not None
        for value in (located.step, located.operator, located.element, located.scalar)
    )


def _verdict(session: Session) -> dict[str, Any]:
    game = session.game
    winners = game.get_winners()
    losers = [loser.name for ended in game.ended for _, loser in list_losers(game, ended)]
    reason = game.ended[-1].ending.name.lower() if game.ended else "agreement"
    return {"winner": winners[0] if winners else None, "losers": losers, "reason": reason}


def _located(located: Located, program: Program) -> dict[str, Any]:
    operator = scalar = None
    if located.operator is not None:
        node = program.nodes[located.operator]
        operator = {
            "index": located.operator,
            "name": program.names[located.operator],
            "kind": node.kind.name.lower(),
        }
    if located.scalar is not None:
        digits = 2 * located.scalar.width
        scalar = {
            "function": located.scalar.function,
            "operands": [f"0x{bits:08x}" for bits in located.scalar.operands],
            "claimed": f"0x{located.scalar.claimed:0{digits}x}",
            "correct": f"0x{located.scalar.correct:0{digits}x}",
        }
    return {
        "step": located.step,
        "operator": operator,
        "element": located.element,
        "fold_index": located.fold_index,
        "scalar": scalar,
    }


def _move(played: Played) -> dict[str, Any]:
    receipt = played.receipt
    assert isinstance(receipt, Receipt)
    return {
        "phase": played.stage,
        "player": played.player,
        "call": played.call,
        "gas_used": receipt.gas_used,
        "calldata_bytes": receipt.calldata_bytes,
        "gas_calldata": receipt.gas_calldata,
        "gas_execution": receipt.gas_execution,
        "block": receipt.block,
        "transaction": receipt.transaction_hash,
    }


def _is_round(played: Played) -> bool:
    """Whether a call is a move of a match."""
    return played.stage not in {"joining", "payout"} and played.call != "start_match"


def _ledger(session: Session) -> dict[str, Any]:
    """Return who had what: changes, fees and what was burned add up to nothing."""
    changes = {name: session.after[name] - before for name, before in session.before.items()}
    return {
        "before": session.before,
        "after": session.after,
        "burned": count_burned(session.game),
        "fees": sum(calculate_fees(session.moves).values()),
        "by_account": changes,
    }
