"""Courts: they say what a job comes to, from a table of cases or by playing it on a chain."""

from dataclasses import dataclass, field
from typing import Protocol

from moot.sim.economy.cases import Case, Lineup
from moot.sim.economy.courtroom import Courtroom
from moot.sim.economy.streams import Stream


class Court(Protocol):
    """The source of cases."""

    def judge(self, lineup: Lineup, number: int) -> Case:
        """Return what one of a lineup's cases comes to."""

    def verify(self, lineup: Lineup, number: int, case: Case) -> Case | None:
        """Return what a case comes to on a chain, if that is known: another case, or itself."""


@dataclass
class ModelledCourt:
    """A court that knows cases from the Python model of the referee, with gas from a table.

    Attributes:
        courtroom: where cases are heard that nobody has kept.
    """

    courtroom: Courtroom
    _known: dict[tuple[Lineup, int], Case] = field(default_factory=dict)

    def judge(self, lineup: Lineup, number: int) -> Case:
        """Return a case of the table, which it makes if it is not there."""
        key = (lineup, number)
        case = self._known.get(key)
        if case is None:
            case = self.courtroom.shelf.find(lineup, number)
            if case is None:
                case = self.courtroom.model(lineup, number)
                self.courtroom.shelf.keep(lineup, number, case)
            self._known[key] = case
        return case

    def verify(self, lineup: Lineup, number: int, case: Case) -> Case | None:
        """Play nothing."""
        del lineup, number, case
        return None


@dataclass
class PlayedCourt:
    """A court that plays every job on a chain.

    Attributes:
        courtroom: where they are played.
    """

    courtroom: Courtroom

    def judge(self, lineup: Lineup, number: int) -> Case:
        """Play a case."""
        return self.courtroom.play(lineup, number)

    def verify(self, lineup: Lineup, number: int, case: Case) -> Case | None:
        """Return the case: it was played."""
        del lineup, number
        return case


@dataclass
class MixedCourt(ModelledCourt):
    """A court that plays a share of the disputes that it knows from its table on a chain, too.

    Attributes:
        share: which share.
        stream: what is drawn from.
    """

    share: float = field(kw_only=True)
    stream: Stream = field(kw_only=True)

    def verify(self, lineup: Lineup, number: int, case: Case) -> Case | None:
        """Play a case, if it is drawn."""
        del case
        return self.courtroom.play(lineup, number) if self.stream.draw() < self.share else None
