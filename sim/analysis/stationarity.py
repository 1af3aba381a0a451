"""Stationarity: whether what a market comes to still rises or falls, by Mann and Kendall's test.

A run is cut into spans of equal numbers of jobs (batch means). Where nothing changes any order of
the spans' means is as likely as any other, if a span is longer than what is remembered; the test
counts in how many pairs the later mean is the larger one (H. B. Mann, Nonparametric tests against
trend, Econometrica 13, 1945; M. G. Kendall, Rank correlation methods, 1975). It assumes no
distribution, and is exact where no two means are equal. SciPy's `kendalltau` computes it.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from moot.sim.estimates import Floats

LEVEL = 0.05
"""How often a market that does not change is said to change, by one of its measures."""

LEAST_SPANS = 6
"""Of fewer spans even those that rise one after the other prove little."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a market's measures after its burn-in.

    Attributes:
        probabilities: by the names of measures, how likely such a trend is where there is none,
            corrected for the number of measures (Bonferroni); None with too few spans.
        trends: of the measures that change, whether they `rises` or `falls`.
    """

    probabilities: Mapping[str, float | None]
    trends: Mapping[str, str]

    @property
    def is_known(self) -> bool:
        """Whether there were enough spans to say anything."""
        return all(value is not None for value in self.probabilities.values())

    @property
    def is_stationary(self) -> bool:
        """Whether there were enough spans, and no measure changes."""
        return self.is_known and not self.trends

    def describe(self) -> str:
        """Return the verdict as a line; `not stationary` are its first words as a warning."""
        if not self.is_known:
            return "whether it is stationary can't be said: give more jobs, or a shorter burn_in"
        if not self.trends:
            least = min(value for value in self.probabilities.values() if value is not None)
            return f"stationary by the test of Mann and Kendall, p = {least:.2g}"
        parts = [
            f"{name} ({trend}, p = {self.probabilities[name]:.2g})"
            for name, trend in self.trends.items()
        ]
        return f"not stationary: {', '.join(parts)}; give more jobs, or a longer burn_in"


def judge(series: Mapping[str, Floats], first: int = 0) -> Verdict:
    """Return whether measures are stationary from a span on.

    Args:
        series: by its name, of each measure a row for each repetition, with a value for each span;
            NaN where there was nothing to measure.
        first: the first span after the burn-in.
    """
    probabilities: dict[str, float | None] = {}
    trends: dict[str, str] = {}
    for name, rows in series.items():
        found = find_trend(average(rows)[first:])
        if found is None:
            probabilities[name] = None
            continue
        slope, probability = found
        probabilities[name] = corrected = min(1.0, probability * len(series))
        if corrected < LEVEL:
            trends[name] = "rises" if slope > 0 else "falls"
    return Verdict(probabilities, trends)


def average(rows: Floats) -> Floats:
    """Return the mean over repetitions in each span; NaN where none has a value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of a span without a value
        means: Floats = np.nanmean(np.atleast_2d(rows), axis=0)
    return means


def find_trend(means: Floats) -> tuple[float, float] | None:
    """Return Kendall's tau of means with time, and its two-sided probability; None if too few."""
    from scipy.stats import kendalltau  # noqa: PLC0415 - takes half a second

    there = means[np.isfinite(means)]
    if len(there) < LEAST_SPANS:
        return None
    if np.ptp(there) == 0:
        return 0.0, 1.0
    found = kendalltau(np.arange(len(there)), there)
    return float(found.statistic), float(found.pvalue)
