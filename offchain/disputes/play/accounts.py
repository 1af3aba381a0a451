"""The accounts of a game: gas and fees from its receipts, burned money from the job's tallies."""

from collections.abc import Iterable
from dataclasses import dataclass

from moot.contracts.model.types import Job
from moot.contracts.reasons import Status
from moot.offchain.disputes.play.game import Game, Played
from moot.offchain.disputes.referee.stages import STAGE_ORDER


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one accepted call, in gas; `calldata` and `execution` as in a receipt."""

    stage: str
    call: str
    gas: int
    calldata: int
    execution: int


def get_cost(played: Played) -> Cost | None:
    """Return the cost of a call; None when no chain has charged for it."""
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


def calculate_burned(job: Job, sharers: int) -> int:
    """Return the wei that the rules burn when a job is closed.

    All bonds of members that never revealed, what a prize leaves of each lost bond, the prizes
    that nobody is owed, and what the sharers of the reward cannot share evenly.
    """
    terms = job.terms
    left = job.hidden * terms.bond_wei + job.defeated * (terms.bond_wei - terms.prize_wei)
    dust = job.reward_wei % sharers if sharers else 0
    return left + job.forfeits * terms.prize_wei + dust


def count_burned(game: Game) -> int:
    """Return the wei that a game has burned, once its job is closed."""
    job = game.referee.job(game.job_id)
    tops = {player.run.history.top for player in game.players if player.name in game.get_winners()}
    claims = [game.referee.claim(game.job_id, top) for top in tops]
    is_won = job.status is Status.WON
    return calculate_burned(job, sum(claim.sharers for claim in claims if claim and is_won))
