"""The trials of receipts: who is right when a receipt is challenged, what that uses and takes.

A challenge is a match of a case that is known already: of the provider's conduct and a watcher's,
without the calls by which members join a job. So its judge is the referee's model, as of any job.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from moot.sim.economy.cases import Case, Lineup
from moot.sim.economy.outcomes import Outcomes
from moot.sim.economy.schema import STAGES
from moot.sim.economy.strategies.base import WATCHER
from moot.sim.strategies import STRATEGIES

LIE = "wrong-output"
"""The lie before the referee of a conduct that has several accounts, or opens jobs itself."""


class Trial(NamedTuple):
    """What the match about a receipt comes to.

    Attributes:
        is_lost: whether the provider has lost it.
        is_refuted: whether the challenger has.
        provider_gas: what the provider's calls use.
        challenger_gas: what the challenger's use, and everybody's who is no party.
        blocks: how long it takes.
    """

    is_lost: bool
    is_refuted: bool
    provider_gas: int
    challenger_gas: int
    blocks: int


@dataclass
class Trials:
    """The trials of a market.

    Attributes:
        outcomes: say what cases come to.
    """

    outcomes: Outcomes
    _known: dict[tuple[Lineup, int], Trial] = field(default_factory=dict)

    def judge(self, conduct: str, challenger: str, number: int) -> Trial:
        """Return what the match of a provider and a challenger comes to."""
        key = (make_lineup(conduct, challenger), number)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = read_trial(self.outcomes.judge(*key))
        return found

    def verify(self, conduct: str, challenger: str, number: int) -> tuple[Case, Case | None]:
        """Return the case of a match, and what it comes to on a chain, if it is drawn."""
        lineup = make_lineup(conduct, challenger)
        case = self.outcomes.judge(lineup, number)
        return case, self.outcomes.verify(lineup, number, case, ())


def make_lineup(conduct: str, challenger: str = WATCHER) -> Lineup:
    """Return the lineup of a match: each conduct with one account that somebody else has asked."""
    return tuple(_simplify(name) for name in (conduct, challenger))


def _simplify(conduct: str) -> str:
    row = STRATEGIES.get(conduct)
    is_plain = row is not None and row.accounts == 1 and not row.is_client
    return conduct if is_plain else LIE


def read_trial(case: Case) -> Trial:
    """Return the match of a case: all that comes after its members have joined."""
    provider, challenger = case.seats[0], case.seats[1]
    joining = dict.fromkeys(("provider", "challenger", "others"), 0)
    names = {f"{provider.conduct}-1": "provider"}
    names[f"{challenger.conduct}-{1 + (provider.conduct == challenger.conduct)}"] = "challenger"
    first = None
    for move in case.moves:
        if move.stage == STAGES[0]:
            joining[names.get(move.player.rpartition(".")[0], "others")] += move.gas
        elif first is None:
            first = move.block
    return Trial(
        provider.lost > 0,
        challenger.lost > 0,
        max(0, provider.gas - joining["provider"]),
        max(0, challenger.gas + case.client_gas - joining["challenger"] - joining["others"]),
        max(1, case.blocks - (first or 0)),
    )
