"""What a game has cost and burned, from its receipts and its endings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contracts.model.types import WINNER_SHARE
from offchain.disputes.game import Ended, Played

STAGE_ORDER = ("joining", "history", "trace", "tensor", "fold", "leaf", "payout")
"""The stages in the order of a game."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one accepted call cost, in gas; `calldata` and `execution` as in a receipt."""

    stage: str
    call: str
    gas: int
    calldata: int
    execution: int


def get_cost(played: Played) -> Cost | None:
    """Return what a call cost; None when no chain has charged for it."""
    receipt = played.receipt
    if receipt is None:
        return None
    parts = (receipt.gas_used, receipt.gas_calldata, receipt.gas_execution)
    return Cost(played.stage, played.call, *parts)


def get_costs(played: Iterable[Played]) -> tuple[Cost, ...]:
    """Return the costs of all calls that a chain has charged for, in order."""
    return tuple(cost for move in played if (cost := get_cost(move)) is not None)


def sum_stages(costs: Iterable[Cost]) -> dict[str, int]:
    """Return the gas of every stage, in the order of a game; 0 where no call was charged for."""
    totals = dict.fromkeys(STAGE_ORDER, 0)
    for cost in costs:
        totals[cost.stage] += cost.gas
    return totals


def calculate_fees(played: Iterable[Played]) -> dict[str, int]:
    """Return the wei that every player has paid for gas, at the prices on the receipts."""
    fees: dict[str, int] = {}
    for move in played:
        if move.receipt is not None:
            fee = move.receipt.gas_used * move.receipt.effective_gas_price
            fees[move.player] = fees.get(move.player, 0) + fee
    return fees


def calculate_burned(ended: Sequence[Ended], bond_wei: int) -> int:
    """Return the wei that the rules burn: of each defeated bond, all but the winner's share."""
    defeats = sum(match.loser is not None for match in ended)
    return defeats * (bond_wei - bond_wei // WINNER_SHARE)
