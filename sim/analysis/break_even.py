"""Break-even: the value of a key at which an attack begins, or ceases, to pay."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.analysis.over_time import Course
from moot.sim.analysis.trials import Laboratory
from moot.sim.analysis.twins import follow, make_contest, try_pairs
from moot.sim.economy.config import Config, has_whole_numbers, replace_key
from moot.sim.estimates import Estimate, Floats, estimate
from moot.sim.experiments.plan import check_names

HALVINGS = 10
"""How often the range is halved: the place is known to a thousandth of it."""


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a key in which a break-even is looked for."""

    key: str
    low: float
    high: float

    def fit(self, config: Config, value: float) -> float:
        """Return a value, or the whole number next to it if the key has only these."""
        return round(value) if has_whole_numbers(config, self.key) else value

    def put(self, config: Config, value: float) -> Config:
        """Return a configuration in which the key has a value of the range."""
        return replace_key(config, self.key, self.fit(config, value))


@dataclass(frozen=True, slots=True)
class Point:
    """A value of the key, and what the market comes to there.

    Attributes:
        value: the value.
        gains: the attackers' gain, in ETH for each job, by repetition.
        course: the market over time.
    """

    value: float
    gains: tuple[float, ...]
    course: Course

    @property
    def mean(self) -> float:
        """The mean gain, in ETH for each job."""
        return sum(self.gains) / len(self.gains)


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The place where an attack breaks even.

    Attributes:
        key: what was varied.
        value: where the mean gain is 0, with its interval; None if it has one sign at both ends.
        points: all values that were tried, in their order.
    """

    key: str
    value: Estimate | None
    points: tuple[Point, ...]

    @property
    def nearest(self) -> Point:
        """The point that was tried nearest to the place; the first if there is no place."""
        if self.value is None:
            return self.points[0]
        place = self.value.value
        return min(self.points, key=lambda point: abs(point.value - place))


def parse_range(text: str) -> Range:
    """Return the range that `KEY=LOW:HIGH` says.

    Raises:
        UsageError: it is no such text, or the range is empty.
    """
    key, _, bounds = text.partition("=")
    try:
        low, high = (Decimal(bound) for bound in bounds.split(":"))
    except (ValueError, InvalidOperation):
        low = high = Decimal("NaN")
    if not key or not (low.is_finite() and high.is_finite()):
        raise UsageError(f"{text} is no range of a key; write KEY=LOW:HIGH, as in bond.eth=0.01:5")
    if low >= high:
        raise UsageError(f"{text}: the range ends at {high}, and begins at {low}; turn it around")
    return Range(key, float(low), float(high))


def find_break_even(
    laboratory: Laboratory, config: Config, place: Range, strategy: str, reps: int
) -> BreakEven:
    """Return where a strategy's gain over its honest twin crosses 0, by bisection on the mean.

    All values are tried with the same random numbers, so that the mean has no noise of its own
    from one value to the next. Of a key of whole numbers only these are tried. If the gain crosses
    0 more than once, one of the places is found.

    Args:
        laboratory: where markets are played.
        config: the market.
        place: the key and its range.
        strategy: whose gain it is.
        reps: repetitions at each value.

    Raises:
        UsageError: the key is unknown, or can't have the values at the ends.
        TrialError: a run failed.
    """

    def try_values(values: Sequence[float]) -> list[Point]:
        configs = [place.put(config, value) for value in values]
        for one in configs:
            check_names(one)
        contests = [make_contest(one, (strategy,)) for one in configs]
        tried = try_pairs(laboratory, contests, reps)
        return [
            Point(value, tuple(pair.gain_eth_per_job for pair in pairs), follow(pairs))
            for value, pairs in zip(values, tried, strict=True)
        ]

    low, high = try_values((place.low, place.high))
    points = [low, high]
    pays_first = low.mean > 0
    if pays_first == (high.mean > 0):
        return BreakEven(place.key, None, tuple(points))
    for _ in range(HALVINGS):
        value = place.fit(config, (low.value + high.value) / 2)
        if value in (low.value, high.value):
            break
        (middle,) = try_values([value])
        points.append(middle)
        if (middle.mean > 0) == pays_first:
            low = middle
        else:
            high = middle
    points.sort(key=lambda point: point.value)
    values = np.array([point.value for point in points])
    gains = np.array([point.gains for point in points])

    def locate(chosen: Any) -> float:
        return find_crossing(values, gains[:, chosen].mean(axis=1), pays_first=pays_first)

    found = estimate(reps, locate)
    return BreakEven(place.key, found, tuple(points))


def find_crossing(values: Floats, gains: Floats, *, pays_first: bool) -> float:
    """Return where a line through points crosses 0 first.

    Args:
        values: of the key, ascending.
        gains: at these values.
        pays_first: whether the attack pays below the place that is looked for, and not above it.

    Returns:
        The place; where the line does not cross 0, the end beyond which it must be.
    """
    is_paying = gains > 0
    changes = np.flatnonzero(is_paying[1:] != is_paying[:-1])
    if not len(changes):
        return float(values[-1] if bool(is_paying[0]) == pays_first else values[0])
    left = int(changes[0])
    rise = gains[left + 1] - gains[left]
    return float(values[left] - gains[left] * (values[left + 1] - values[left]) / rise)
