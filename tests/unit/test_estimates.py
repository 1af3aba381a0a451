"""Intervals of confidence: how often they hold what they are about, in experiments without one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from moot.offchain.errors import UsageError
from moot.sim.analysis.break_even import find_crossing
from moot.sim.estimates import (
    CONFIDENCE,
    Estimate,
    Floats,
    estimate,
    estimate_mean,
    share_confidence,
)

EXPERIMENTS = 2_000
TRUTH = 1.0
SPREAD = 0.4
"""Of a repetition, about the truth."""


def make_mean(samples: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of repetitions."""
    return estimate_mean(samples, confidence)


def make_crossing(samples: Floats) -> Estimate:
    """Return where gains cross 0 that fall from repetition's own height, at the height itself."""
    values = np.linspace(-9.0, 11.0, 21)

    def locate(chosen: Any) -> float:
        return find_crossing(values, samples[chosen].mean() - values, pays_first=True)

    return estimate(len(samples), locate)


def miss(make: Callable[[Floats], Estimate], reps: int) -> float:
    """Return in which share of experiments the interval does not have the true value."""
    rng = np.random.default_rng([1, reps])
    drawn = rng.normal(TRUTH, SPREAD, (EXPERIMENTS, reps))
    return float(np.mean([not make(samples).contains(TRUTH) for samples in drawn]))


@pytest.mark.parametrize(
    ("make", "reps"),
    [(make_mean, 3), (make_mean, 5), (make_mean, 10), (make_mean, 30), (make_crossing, 4)],
)
def test_intervals_miss_as_often_as_they_say(make: Callable[[Floats], Estimate], reps: int) -> None:
    """An interval of 95% misses in 4 to 6 of 100 experiments, however few repetitions there are."""
    assert 0.04 <= miss(make, reps) <= 0.06


def test_intervals_that_are_too_narrow_are_seen() -> None:
    """With the normal distribution's 1.96 three repetitions miss far more often."""

    def make_normal(samples: Floats) -> Estimate:
        margin = 1.96 * samples.std(ddof=1) / np.sqrt(len(samples))
        return Estimate(samples.mean(), samples.mean() - margin, samples.mean() + margin)

    assert miss(make_normal, 3) > 0.15


def test_the_best_of_many_is_not_best_by_chance() -> None:
    """Of 75 that bring nothing, one seems to bring something in no more than 5 of 100 searches."""
    drawn = np.random.default_rng(2).normal(0.0, 1.0, (100, 75, 10))
    confidence = share_confidence(75)
    found, naive = (
        np.mean([max(_low(it, level) for it in search) > 0 for search in drawn])
        for level in (confidence, CONFIDENCE)
    )
    assert found <= 0.05
    assert naive > 0.5


def _low(samples: Floats, confidence: float) -> float:
    low = estimate_mean(samples, confidence).low
    assert low is not None
    return low


def test_one_repetition_has_no_interval() -> None:
    """A number alone says nothing of chance; nothing at all is refused."""
    assert estimate_mean([2.5]) == estimate(1, lambda _: 2.5) == Estimate(2.5)
    assert Estimate(2.5).margin == 0
    assert not Estimate(2.5).contains(2.5)
    with pytest.raises(UsageError, match="needs a repetition"):
        estimate_mean([])
