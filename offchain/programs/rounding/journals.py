"""The two ways to use a step's log: a trainer writes it, an auditor reads it."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from moot.offchain.arithmetic.logged.band import LOGGED_WITHIN, OBEYED_WITHIN, REACH
from moot.offchain.programs.rounding.entries import Entries, StepLog
from moot.offchain.programs.rounding.judgement import Flags, Floats, Integers, Judgement


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
        found = judgement.boundaries
        doubtful = found.is_within(LOGGED_WITHIN)
        written = doubtful & found.has_band
        written[np.flatnonzero(written)[most:]] = False
        left = doubtful & ~written
        values = found.nearest.copy()
        if left.any():
            values[left] = judgement.settle(np.flatnonzero(left))
        self.steerable += int(np.count_nonzero(found.has_band & found.is_within(REACH)))
        self.settled += int(np.count_nonzero(left))
        if written.any():
            elements = judgement.elements[written].tolist()
            ups = (values == found.high)[written].tolist()
            self.entries[operator] = tuple(zip(elements, ups, strict=True))
            self.logged += len(elements)
        return values

    @property
    def log(self) -> StepLog:
        """The log of the step."""
        return StepLog(self.entries)


@dataclass
class Steering(Writing):
    """A dishonest trainer's journal: whatever it may turn goes up, and its log says so.

    It turns what is surely within the band, so that none of its entries is void and every auditor
    comes to the same bits.

    Attributes:
        within: how near to a boundary is what it turns, in multiples of the bound.
    """

    reach: float = OBEYED_WITHIN
    within: float = OBEYED_WITHIN

    def decide(self, operator: int, most: int, judgement: Judgement) -> Floats:
        """Return the upper numbers beside all boundaries that are near, and log them."""
        found = judgement.boundaries
        doubtful = found.is_within(self.within)
        written = doubtful & found.has_band
        written[np.flatnonzero(written)[most:]] = False
        left = doubtful & ~written
        values = np.where(written, found.high, found.nearest)
        if left.any():
            values[left] = judgement.settle(np.flatnonzero(left))
        self.steerable += int(np.count_nonzero(written))
        if written.any():
            elements = judgement.elements[written].tolist()
            self.entries[operator] = tuple((element, True) for element in elements)
            self.logged += len(elements)
        return values


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
        values = judgement.boundaries.nearest.copy()
        obeyed = self._obey(operator, judgement, values)
        left = ~obeyed & judgement.boundaries.is_within(1)
        values[left] = judgement.settle(np.flatnonzero(left))
        self.settled += int(np.count_nonzero(left))
        return values

    def _obey(self, operator: int, judgement: Judgement, values: Floats) -> Flags:
        """Write what entries say into the values, and return where they did."""
        entries, found = self.log.operators.get(operator, ()), judgement.boundaries
        obeyed = np.zeros(len(values), np.bool_)
        if not entries:
            return obeyed
        places = np.searchsorted(judgement.elements, self.get_elements(operator))
        ups = np.zeros(len(values), np.bool_)
        ups[places] = [up for _, up in entries]
        is_sure = found.has_band & found.is_within(OBEYED_WITHIN)
        is_void = found.lacks_band | ~found.is_within(REACH + 1)
        sure, open_ = places[is_sure[places]], places[~(is_sure | is_void)[places]]
        values[sure], obeyed[sure] = found.turn(ups)[sure], True
        effects, counts = judgement.obey(open_, ups[open_])
        values[open_[counts]], obeyed[open_[counts]] = effects[counts], True
        self.void += [(operator, int(judgement.elements[p])) for p in places if not obeyed[p]]
        own = found.nearest.view(np.uint32) != values.view(np.uint32)
        self.corrections += int(np.count_nonzero(own & obeyed))
        return obeyed
