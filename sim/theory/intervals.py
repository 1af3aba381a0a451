"""Confidence intervals of means of independent runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev

from moot.offchain.errors import UsageError

CONFIDENCE = 0.95
LEAST_RUNS = 30
"""The fewest runs whose mean is taken to be normally distributed."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and how far from it the true one is at most, with a confidence of 95%."""

    mean: float
    margin: float

    def contains(self, value: float) -> bool:
        """Return whether a value is in the interval."""
        return abs(value - self.mean) <= self.margin


def estimate(runs: Sequence[float]) -> Interval:
    """Return the interval of the mean of independent runs.

    Raises:
        UsageError: there are too few.
    """
    if len(runs) < LEAST_RUNS:
        raise UsageError(f"{len(runs)} runs are too few for an interval; take {LEAST_RUNS} or more")
    quantile = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return Interval(fmean(runs), quantile * stdev(runs) / sqrt(len(runs)))
