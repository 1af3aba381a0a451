"""Estimates: a number that independent repetitions came to, and an interval of confidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

import numpy as np

from moot.offchain.errors import UsageError

CONFIDENCE = 0.95
"""How often the interval of an estimate has the true value."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, and the bounds of its interval; None for one repetition alone."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def margin(self) -> float:
        """Half the width of the interval, 0 if there is none."""
        return 0.0 if self.low is None or self.high is None else (self.high - self.low) / 2

    def contains(self, value: float) -> bool:
        """Return whether a value is in the interval."""
        return self.low is not None and self.high is not None and self.low <= value <= self.high


def share_confidence(count: int) -> float:
    """Return the confidence of each of so many intervals that hold together as often as one does.

    That is Bonferroni's correction.
    """
    return 1 - (1 - CONFIDENCE) / count


def estimate_mean(samples: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of what repetitions came to, with Student's interval.

    Raises:
        UsageError: there are none.
    """
    values = np.asarray(samples, np.float64)
    count = len(values)
    _check(count)
    value = fsum(values) / count
    error = sqrt(fsum(np.square(values - value)) / (count - 1) / count) if count > 1 else None
    return _make(value, error, count, confidence)


def estimate(
    reps: int, statistic: Callable[[Any], float], confidence: float = CONFIDENCE
) -> Estimate:
    """Return a statistic of all repetitions, with the interval of the jackknife.

    Leaving out each repetition in turn shows how much of the statistic is due to one. Of a mean it
    is Student's interval, which a resampling of few repetitions is too narrow beside.

    Args:
        reps: how many repetitions there are.
        statistic: returns the statistic of some repetitions, by their numbers.
        confidence: of the interval.

    Raises:
        UsageError: there are no repetitions.
    """
    _check(reps)
    everyone = np.arange(reps)
    value = statistic(everyone)
    if reps == 1:
        return Estimate(value)
    parts = np.array([statistic(np.delete(everyone, number)) for number in everyone])
    error = sqrt((reps - 1) / reps * np.square(parts - parts.mean()).sum())
    return _make(value, error, reps, confidence)


def _check(reps: int) -> None:
    if reps < 1:
        raise UsageError("an estimate needs a repetition; take one or more")


def _make(value: float, error: float | None, reps: int, confidence: float) -> Estimate:
    """Return a number with its interval, by its standard error, None for one repetition."""
    if error is None:
        return Estimate(value)
    from scipy.special import stdtrit  # noqa: PLC0415 - takes a fifth of a second

    margin = float(stdtrit(reps - 1, (1 + confidence) / 2) * error)
    return Estimate(value, value - margin, value + margin)
