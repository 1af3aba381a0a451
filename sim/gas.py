"""Gas by stage and call: what each kind of move costs, calldata and execution apart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Self

from contracts.model.referee import CALLS
from offchain.disputes.game import Played
from offchain.disputes.report import STAGES


@dataclass(frozen=True, slots=True)
class Cost:
    """What one accepted call cost, in gas; `calldata` and `execution` as in a receipt."""

    stage: str
    call: str
    gas: int
    calldata: int
    execution: int


@dataclass(frozen=True, slots=True)
class Spread:
    """How some amounts of gas lie; the median is one of them, the lower one of two."""

    minimum: int
    median: int
    maximum: int
    total: int

    @classmethod
    def of(cls, amounts: Sequence[int]) -> Self:
        """Return the spread of at least one amount."""
        return cls(min(amounts), median_low(amounts), max(amounts), sum(amounts))


@dataclass(frozen=True, slots=True)
class GasRow:
    """All moves of one call in one stage.

    The totals satisfy 21,000 * moves + calldata + execution = gas.
    """

    stage: str
    call: str
    moves: int
    gas: Spread
    calldata: Spread
    execution: Spread


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


def summarise(played: Iterable[Played]) -> list[GasRow]:
    """Return a row for every (stage, call) that was played, as `tabulate`."""
    return tabulate(get_costs(played))


def tabulate(costs: Iterable[Cost]) -> list[GasRow]:
    """Return a row for every (stage, call): stages as a game passes them, calls as documented."""
    groups: dict[tuple[str, str], list[Cost]] = {}
    for cost in costs:
        groups.setdefault((cost.stage, cost.call), []).append(cost)
    calls = list(CALLS)
    keys = sorted(groups, key=lambda key: (STAGES.index(key[0]), calls.index(key[1])))
    return [_make_row(*key, groups[key]) for key in keys]


def _make_row(stage: str, call: str, costs: Sequence[Cost]) -> GasRow:
    return GasRow(
        stage=stage,
        call=call,
        moves=len(costs),
        gas=Spread.of([cost.gas for cost in costs]),
        calldata=Spread.of([cost.calldata for cost in costs]),
        execution=Spread.of([cost.execution for cost in costs]),
    )


def by_stage(played: Iterable[Played]) -> dict[str, int]:
    """Return the gas of every stage, in the order of a game; 0 where no call was charged for."""
    return sum_stages(get_costs(played))


def sum_stages(costs: Iterable[Cost]) -> dict[str, int]:
    """Return the gas of every stage, as `by_stage`."""
    totals = dict.fromkeys(STAGES, 0)
    for cost in costs:
        totals[cost.stage] += cost.gas
    return totals
