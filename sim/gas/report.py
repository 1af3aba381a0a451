"""The report on a scenario: its totals, its stages and its calls."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from moot.contracts.model.referee import CALLS
from moot.offchain.disputes.play.accounts import Cost, get_costs, sum_stages
from moot.sim.gas.play import Measured
from moot.sim.gas.rows import tabulate

OPENING = "open_job"
"""The call that a client pays for before there is any provider."""
_AROUND = {OPENING, "commit", "reveal", "join", "start_match", "settle", "collect"}
_DECIDING = {"leaf", "prove_sink", "rule", "timeout"}
NARROWING = frozenset(CALLS) - _AROUND - _DECIDING
"""The moves of a match that do not end it."""
START, LEAF = "start_match", "leaf"


def make_object(measured: Measured) -> dict[str, Any]:
    """Return a scenario's figures as one object for JSON, all in gas.

    `total_gas` is everything from joining to payout for both sides, and so the sum of `by_phase`
    and of `by_call`; what the client paid to open the job is apart. `gas_per_halving_rounds` is the
    gas of all moves but those that end a match, for each bit of the place of the scalar operation:
    null where the job is not synthetic, or not narrowed down to exactly one operation.
    """
    scenario, costs = measured.scenario, get_costs(measured.played)
    disputed = [cost for cost in costs if cost.call != OPENING]
    rounds = sum(cost.gas for cost in disputed if cost.call in NARROWING)
    leaves = [cost.gas for cost in disputed if cost.call == LEAF]
    # Of searches that were not made to their ends, or several, it would say nothing.
    matches = sum(cost.call == START for cost in disputed)
    halvings = scenario.halvings if len(leaves) == matches == 1 else None
    return {
        "scenario": scenario.name,
        "about": scenario.about,
        "total_gas": sum(cost.gas for cost in disputed),
        "halvings": halvings,
        "rounds_gas": rounds,
        "gas_per_halving_rounds": rounds / halvings if halvings else None,
        "leaf_gas": max(leaves, default=None),
        "by_phase": sum_stages(disputed),
        "by_call": {call: _sum(disputed, call) for call in CALLS if _sum(disputed, call)},
        "open_job_gas": _sum(costs, OPENING),
        "calls": [asdict(row) for row in tabulate(disputed)],
    }


def _sum(costs: Sequence[Cost], call: str) -> int:
    return sum(cost.gas for cost in costs if cost.call == call)
