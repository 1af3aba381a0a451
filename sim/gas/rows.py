"""Gas by stage and call: what each kind of move costs, calldata and execution apart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Self

from moot.contracts.model.referee import CALLS
from moot.offchain.disputes.play.accounts import Cost, get_costs
from moot.offchain.disputes.play.game import Played
from moot.offchain.disputes.referee.stages import STAGE_ORDER


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the (lower) median and the greatest of some amounts of gas."""

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


def summarise(played: Iterable[Played]) -> list[GasRow]:
    """Return a row for every (stage, call) that was played, as `tabulate`."""
    return tabulate(get_costs(played))


def tabulate(costs: Iterable[Cost]) -> list[GasRow]:
    """Return a row for every (stage, call): stages as a game passes them, calls as documented."""
    groups: dict[tuple[str, str], list[Cost]] = {}
    for cost in costs:
        groups.setdefault((cost.stage, cost.call), []).append(cost)
    calls = list(CALLS)
    keys = sorted(groups, key=lambda key: (STAGE_ORDER.index(key[0]), calls.index(key[1])))
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
