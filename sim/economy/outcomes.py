"""Outcomes: they say what a job comes to, from a table of cases or by playing it on a chain."""

from dataclasses import dataclass, field, replace
from typing import Protocol

from moot.contracts.model.types import MIN_BOND_WEI
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.errors import UsageError
from moot.sim.economy.case_runner import CaseRunner
from moot.sim.economy.cases import Case, Lineup
from moot.sim.economy.casting import STAKES
from moot.sim.economy.config import GWEI
from moot.sim.economy.congested import Closed
from moot.sim.economy.streams import Stream

Money = tuple[int, int]
"""The bond of each account in a job, and the reward of all, in gwei."""


class Outcomes(Protocol):
    """The source of cases."""

    def judge(self, lineup: Lineup, number: int, money: Money | None = None) -> Case:
        """Return what one of a lineup's cases comes to.

        Args:
            lineup: the conducts of all who take part.
            number: which of its cases.
            money: what is at stake, where it is played on a chain; the usual if it is None.
        """

    def congest(
        self, lineup: Lineup, number: int, closed: Closed, money: Money | None = None
    ) -> Case:
        """Return what a case comes to if no call gets into some blocks; arguments as in `judge`."""

    def verify(self, lineup: Lineup, number: int, case: Case, closed: Closed) -> Case | None:
        """Return what a case comes to on a chain, if that is known: another case, or itself."""


@dataclass
class ModelledOutcomes:
    """Outcomes that are computed on the Python model of the referee, with gas from a table.

    Attributes:
        runner: plays cases that nobody has kept.
    """

    runner: CaseRunner
    _known: dict[tuple[Lineup, int], Case] = field(default_factory=dict)

    def judge(self, lineup: Lineup, number: int, money: Money | None = None) -> Case:
        """Return a case of the table, which it makes if it is not there."""
        del money
        key = (lineup, number)
        case = self._known.get(key)
        if case is None:
            case = self.runner.shelf.find(lineup, number)
            if case is None:
                case = self.runner.model(lineup, number)
                self.runner.shelf.keep(lineup, number, case)
            self._known[key] = case
        return case

    def congest(
        self, lineup: Lineup, number: int, closed: Closed, money: Money | None = None
    ) -> Case:
        """Return a case from the shelf, which is played if it is not there."""
        del money
        case = self.runner.shelf.find(lineup, number, closed)
        if case is None:
            case = self.runner.model(lineup, number, closed)
            self.runner.shelf.keep(lineup, number, case, closed)
        return case

    def verify(self, lineup: Lineup, number: int, case: Case, closed: Closed) -> Case | None:
        """Play nothing."""
        del lineup, number, case, closed
        return None


@dataclass
class PlayedOutcomes:
    """Outcomes of jobs that are played on a chain, all of them, at their own stakes; none is kept.

    Attributes:
        runner: plays them.
    """

    runner: CaseRunner

    def judge(self, lineup: Lineup, number: int, money: Money | None = None) -> Case:
        """Play a case; raises UsageError if the contract does not take such a bond."""
        return self.congest(lineup, number, (), money)

    def congest(
        self, lineup: Lineup, number: int, closed: Closed, money: Money | None = None
    ) -> Case:
        """Play a case; raises UsageError if the contract does not take such a bond."""
        stakes = STAKES if money is None else _make_stakes(*money)
        case = self.runner.play(lineup, number, stakes, closed)
        self.runner.forget(number)
        return case

    def verify(self, lineup: Lineup, number: int, case: Case, closed: Closed) -> Case | None:
        """Return the case: it was played."""
        del lineup, number, closed
        return case


@dataclass
class MixedOutcomes(ModelledOutcomes):
    """Outcomes from the table, of which a share of the disputes is played on a chain, too.

    Attributes:
        share: which share.
        stream: what is drawn from.
    """

    share: float = field(kw_only=True)
    stream: Stream = field(kw_only=True)

    def verify(self, lineup: Lineup, number: int, case: Case, closed: Closed) -> Case | None:
        """Play a case, if it is drawn."""
        del case
        if self.stream.draw() >= self.share:
            return None
        return self.runner.play(lineup, number, closed=closed)


def _make_stakes(bond_gwei: int, reward_gwei: int) -> Stakes:
    """Return the stakes of a job."""
    bond_wei, reward_wei = bond_gwei * GWEI, reward_gwei * GWEI
    if bond_wei < MIN_BOND_WEI:
        raise UsageError(
            f"the contract takes bonds of {MIN_BOND_WEI / 10**18:g} ETH and more, and one of a job "
            f'is {bond_wei / 10**18:g}; raise `bond`, or choose fidelity = "modelled"'
        )
    return replace(STAKES, bond_wei=bond_wei, reward_wei=reward_wei)
