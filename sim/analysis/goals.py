"""Goals and limits of a search: what is to be best, what has to hold, and what binds."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.analysis.measures import check_measures
from moot.sim.analysis.space import Point
from moot.sim.estimates import Estimate

MET, UNSURE, BROKEN = "met", "unsure", "broken"

_LIMIT = re.compile(r"\s*(\w+)\s*(<=|>=)\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be best: a measure, and whether more of it is better."""

    measure: str
    is_more_better: bool = False

    def weigh(self, value: float) -> float:
        """Return a number that is smaller for what is better."""
        return -value if self.is_more_better else value

    def describe(self) -> str:
        """Return it in words."""
        return f"{'most' if self.is_more_better else 'least'} {self.measure}"


@dataclass(frozen=True, slots=True)
class Limit:
    """A constraint: a measure is `<=` or `>=` a bound."""

    measure: str
    relation: str
    bound: float

    def exceed(self, value: float) -> float:
        """Return by how much a value breaks it; 0 or less where it does not."""
        return value - self.bound if self.relation == "<=" else self.bound - value

    def judge(self, found: Estimate) -> str:
        """Return whether an interval meets it, breaks it, or reaches to both sides."""
        ends = [self.exceed(it) for it in (found.low, found.high) if it is not None]
        ends = ends or [self.exceed(found.value)]
        return MET if max(ends) <= 0 else BROKEN if min(ends) > 0 else UNSURE

    def describe(self) -> str:
        """Return it as a user writes it."""
        return f"{self.measure} {self.relation} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Tried:
    """A design that the search has looked at.

    Attributes:
        point: the value of each key.
        means: of its measures, over the repetitions.
        margins: of its measures, how far the end of a one-sided interval of 95% is from the mean;
            0 with one repetition.
    """

    point: Point
    means: Mapping[str, float]
    margins: Mapping[str, float]

    def exceed(self, limit: Limit) -> float:
        """Return by how much it breaks a limit, its margin included; 0 or less if it does not."""
        return limit.exceed(self.means[limit.measure]) + self.margins[limit.measure]


def parse_limit(text: str) -> Limit:
    """Return the limit that `MEASURE <= NUMBER` or `MEASURE >= NUMBER` says.

    Raises:
        UsageError: it is no such text, or there is no such measure.
    """
    found = _LIMIT.fullmatch(text)
    try:
        bound = float(found[3]) if found else math.nan
    except ValueError:
        bound = math.nan
    if found is None or not math.isfinite(bound):
        raise UsageError(
            f"{text} is no limit; write MEASURE <= NUMBER or MEASURE >= NUMBER, as in "
            "'wrong_share <= 0.01'"
        )
    check_measures([found[1]])
    return Limit(found[1], found[2], bound)


def say_what_binds(
    tried: Sequence[Tried], limits: Sequence[Limit], describe: Callable[[Point], str]
) -> str:
    """Return in one sentence which limits no design has met, and how near one came.

    Args:
        tried: all designs, none of which meets all limits.
        limits: at least one.
        describe: returns a design's values in words.
    """
    nearest_of = {it: _find_nearest(tried, [it]) for it in limits}
    never = [it for it, one in nearest_of.items() if one.exceed(it) > 0]
    if never:
        told = "; ".join(
            f"{it.describe()}: the nearest is {_tell(it, nearest_of[it])} with "
            f"{describe(nearest_of[it].point)}"
            for it in never
        )
        return f"none of {len(tried)} designs meets {told}"
    least = _find_nearest(tried, limits)
    worst = max(limits, key=lambda it: _scale(it, least))
    return (
        f"each limit is met by some of {len(tried)} designs, and all by none: the nearest is "
        f"{describe(least.point)}, where {worst.describe()} binds with {_tell(worst, least)}"
    )


def _find_nearest(tried: Sequence[Tried], limits: Sequence[Limit]) -> Tried:
    """Return the design that breaks some limits by the least share of their bounds."""
    return min(tried, key=lambda one: max(_scale(it, one) for it in limits))


def _tell(limit: Limit, tried: Tried) -> str:
    """Return the mean of a limit's measure, with its margin."""
    mean, margin = tried.means[limit.measure], tried.margins[limit.measure]
    return f"{mean:.4g} ± {margin:.2g}" if margin else f"{mean:.4g}"


def _scale(limit: Limit, tried: Tried) -> float:
    """Return by how much a design breaks a limit, as a share of the bound."""
    return tried.exceed(limit) / (abs(limit.bound) or 1.0)
