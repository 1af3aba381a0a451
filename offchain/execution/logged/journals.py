"""The two ways to use a step's log: a trainer writes it, an auditor reads it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from offchain.arithmetic.logged.band import LOGGED_WITHIN, OBEYED_WITHIN, REACH
from offchain.execution.indexing import Integers
from offchain.execution.logged.judgement import Judgement
from offchain.execution.logged.stock import Flags, Floats
from offchain.programs.rounding.entries import Entries, StepLog


class Journal(Protocol):
    """What becomes of the elements that stock operators leave in doubt, in one step.

    Attributes:
        reach: how near to a boundary results are looked at again, in multiples of their bound.
    """

    reach: float

    def get_elements(self, operator: int) -> Integers:
        """Return the elements of an operator that have entries, ascending."""

    def decide(self, operator: int, most: int, judgement: Judgement) -> Floats:
        """Return the values of the judged elements, given how many entries there may be."""


@dataclass
class Writing:
    """A trainer's journal: it logs what is doubtful, with the direction that its result took.

    Attributes:
        entries: what has been logged, by operator.
        logged: how many entries.
        steerable: how many elements could have been given either direction.
        settled: how many were decided exactly, for want of a band or of room in the log.
        reach: see `Journal`; all that is steerable is counted only if it is the band's.
    """

    reach: float = LOGGED_WITHIN
    entries: dict[int, Entries] = field(default_factory=dict)
    logged: int = 0
    steerable: int = 0
    settled: int = 0

    def get_elements(self, operator: int) -> Integers:
        """Return no elements: nothing has been written before."""
        del operator
        return np.zeros(0, np.int64)

    def decide(self, operator: int, most: int, judgement: Judgement) -> Floats:
        """Return the rounded results, and log the doubtful ones."""
        doubtful = judgement.is_within(LOGGED_WITHIN)
        written = doubtful & judgement.has_band
        written[np.flatnonzero(written)[most:]] = False
        left = doubtful & ~written
        values = judgement.nearest.copy()
        if left.any():
            values[left] = judgement.settle(np.flatnonzero(left))
        self.steerable += int(np.count_nonzero(judgement.has_band & judgement.is_within(REACH)))
        self.settled += int(np.count_nonzero(left))
        if written.any():
            elements = judgement.elements[written].tolist()
            ups = (values == judgement.high)[written].tolist()
            self.entries[operator] = tuple(zip(elements, ups, strict=True))
            self.logged += len(elements)
        return values

    @property
    def log(self) -> StepLog:
        """The log of the step."""
        return StepLog(self.entries)


@dataclass
class Reading:
    """An auditor's journal: it obeys the log's entries as far as the band allows.

    Attributes:
        log: the log.
        corrections: for how many elements an entry said otherwise than the auditor's own result.
        settled: how many were decided exactly, being in doubt without an entry.
        void: the entries, as (operator, element), that the band does not allow.
        reach: see `Journal`.
    """

    log: StepLog
    reach: float = 1.0
    corrections: int = 0
    settled: int = 0
    void: list[tuple[int, int]] = field(default_factory=list)

    def get_elements(self, operator: int) -> Integers:
        """Return the elements that have entries."""
        return np.array([e for e, _ in self.log.operators.get(operator, ())], np.int64)

    def decide(self, operator: int, most: int, judgement: Judgement) -> Floats:
        """Return what the entries say, and elsewhere the correctly rounded values."""
        del most
        values = judgement.nearest.copy()
        obeyed = self._obey(operator, judgement, values)
        left = ~obeyed & judgement.is_within(1)
        values[left] = judgement.settle(np.flatnonzero(left))
        self.settled += int(np.count_nonzero(left))
        return values

    def _obey(self, operator: int, judgement: Judgement, values: Floats) -> Flags:
        """Write what entries say into the values, and return where they did."""
        entries = self.log.operators.get(operator, ())
        obeyed = np.zeros(len(values), np.bool_)
        if not entries:
            return obeyed
        places = np.searchsorted(judgement.elements, self.get_elements(operator))
        ups = np.array([up for _, up in entries])
        is_sure = (judgement.has_band & judgement.is_within(OBEYED_WITHIN))[places]
        # Whoever writes a log must not be able to make its readers ask the definition often.
        is_void = (judgement.lacks_band | ~judgement.is_within(REACH + 1))[places]
        sure = places[is_sure]
        values[sure] = np.where(ups[is_sure], judgement.high[sure], judgement.low[sure])
        obeyed[sure] = True
        self._ask(
            operator,
            judgement,
            places[~is_sure & ~is_void],
            ups[~is_sure & ~is_void],
            values,
            obeyed,
        )
        self.void += [(operator, int(judgement.elements[p])) for p in places if not obeyed[p]]
        own = judgement.nearest.view(np.uint32) != values.view(np.uint32)
        self.corrections += int(np.count_nonzero(own & obeyed))
        return obeyed

    def _ask(
        self,
        operator: int,
        judgement: Judgement,
        places: Integers,
        ups: Sequence[bool] | Flags,
        values: Floats,
        obeyed: Flags,
    ) -> None:
        """Decide by definition about entries of which binary64 can't tell whether they count."""
        del operator
        for place, up in zip(places.tolist(), ups, strict=True):
            value = judgement.obey(int(judgement.elements[place]), bool(up))
            if value is not None:
                values[place], obeyed[place] = value, True
