"""Estimates: a mean over repetitions, and an interval that says how much chance there is in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 1
"""Source of the resampling: the same repetitions have the same interval."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, and the bounds of its 95% bootstrap interval; None for one repetition alone."""

    value: float
    low: float | None
    high: float | None


def estimate_mean(samples: Sequence[float]) -> Estimate:
    """Return the mean of what repetitions came to."""
    values = np.asarray(samples, np.float64)
    return estimate(len(values), lambda chosen: float(values[chosen].mean()))


def estimate(reps: int, statistic: Callable[[Any], float]) -> Estimate:
    """Return a statistic of all repetitions, and the bounds of its percentile interval.

    Args:
        reps: how many repetitions there are.
        statistic: returns the statistic of some repetitions, by their numbers; one can be there
            more than once.
    """
    everyone = np.arange(reps)
    value = statistic(everyone)
    if reps == 1:
        return Estimate(value, None, None)
    from scipy.stats import bootstrap  # noqa: PLC0415 - takes a second

    interval = bootstrap(
        (everyone,),
        lambda chosen: statistic(chosen.astype(np.int64)),
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=False,
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))
