"""A search for a design: values of keys at which a measure is best, under limits on others.

A search looks at many designs, and the best of many seems better than it is. So its best ones are
played again with seeds that the search has not seen, and all that is said of them is from these,
with intervals that hold for all of them together (Bonferroni). Within the search a limit counts as
met where the end of a one-sided interval is, not the mean: the best design often lies at a limit,
and would be beyond it as soon as other seeds are drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.analysis.goals import Goal, Limit, Tried, say_what_binds
from moot.sim.analysis.meter import Meter
from moot.sim.analysis.searching import count_members, search
from moot.sim.analysis.space import Point
from moot.sim.estimates import CONFIDENCE, Estimate, Floats, estimate_mean, share_confidence

FINALISTS = 3
"""Designs that are played again with fresh seeds."""

FRESH = 2**24
"""The number of the first repetition that no search has."""

_ONE_SIDED = 1 - 2 * (1 - CONFIDENCE)
"""Of an interval of which one end is meant, which 95% are on one side of."""


@dataclass(frozen=True, slots=True)
class Finalist:
    """A design that was played with fresh seeds.

    Attributes:
        point: the value of each key; empty for the market as it is configured.
        searched: the goal's mean in the search, by which it was chosen.
        found: each measure with its interval.
        verdicts: whether each limit is met, in the order of the limits.
    """

    point: Point
    searched: float | None
    found: Mapping[str, Estimate]
    verdicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Design:
    """What a search has found.

    Attributes:
        keys: that were varied.
        goal: what was to be best.
        limits: the constraints.
        reps: seeds of each design in the search.
        fresh: seeds of each finalist.
        tried: all designs, in the order in which they were asked for.
        finalists: the best of them with fresh seeds, the best first.
        configured: the market as it is configured, with the same fresh seeds.
        best: the finalist that is best and meets all limits by its means; None if none does.
        binding: which limits can't be met, in one sentence; empty where all are.
        played: runs that were played now, twins included.
    """

    keys: tuple[str, ...]
    goal: Goal
    limits: tuple[Limit, ...]
    reps: int
    fresh: int
    tried: tuple[Tried, ...]
    finalists: tuple[Finalist, ...]
    configured: Finalist
    best: Finalist | None
    binding: str
    played: int


@dataclass(slots=True)
class _Search:
    """A search: what it asks, and what it has been told."""

    meter: Meter
    goal: Goal
    limits: tuple[Limit, ...]
    reps: int
    tried: dict[Point, Tried] = field(default_factory=dict)

    def evaluate(self, parts: Floats) -> Floats:
        """Return what the goal and the limits are at points of the unit cube."""
        points = [self.meter.space.pick(row.tolist()) for row in parts]
        self.look(points)
        return np.array([self.weigh(self.tried[point]) for point in points])

    def look(self, points: Sequence[Point]) -> None:
        """Play designs that have not been tried."""
        new = [point for point in dict.fromkeys(points) if point not in self.tried]
        asked = [(point, rep) for point in new for rep in range(self.reps)]
        found = self.meter.measure(asked)
        for number, point in enumerate(new):
            own = found[number * self.reps : (number + 1) * self.reps]
            means = {it: estimate_mean([one[it] for one in own], _ONE_SIDED) for it in own[0]}
            self.tried[point] = Tried(
                point,
                {name: it.value for name, it in means.items()},
                {name: it.margin for name, it in means.items()},
            )

    def weigh(self, tried: Tried) -> list[float]:
        """Return what is to be small, and what is to be 0 or less."""
        exceeded = [tried.exceed(it) for it in self.limits]
        return [self.goal.weigh(tried.means[self.goal.measure]), *exceeded]

    def list_feasible(self) -> list[Tried]:
        """Return the designs that meet all limits, the best first."""
        good = [it for it in self.tried.values() if max([0.0, *self.weigh(it)[1:]]) <= 0]
        return sorted(good, key=lambda it: self.weigh(it)[0])

    def play_again(self, points: Sequence[Point], fresh: int) -> list[Mapping[str, Estimate]]:
        """Return measures of designs with fresh seeds; all intervals hold together."""
        asked = [(point, FRESH + rep) for point in points for rep in range(fresh)]
        found = self.meter.measure(asked)
        names = self.meter.names
        confidence = share_confidence(len(names) * len(points))
        return [
            {
                name: estimate_mean(
                    [it[name] for it in found[place * fresh : (place + 1) * fresh]], confidence
                )
                for name in names
            }
            for place in range(len(points))
        ]

    def judge(self, found: Mapping[str, Estimate]) -> tuple[str, ...]:
        """Return whether each limit is met."""
        return tuple(it.judge(found[it.measure]) for it in self.limits)

    def holds(self, finalist: Finalist) -> bool:
        """Return whether a finalist meets all limits by its means."""
        return not self.list_broken(finalist)

    def list_broken(self, finalist: Finalist) -> list[Limit]:
        """Return the limits that a finalist breaks by its means."""
        return [it for it in self.limits if it.exceed(finalist.found[it.measure].value) > 0]

    def say_what_binds(self, finalists: Sequence[Finalist]) -> str:
        """Return in one sentence which limits can't be met."""
        if not finalists:
            return say_what_binds([*self.tried.values()], self.limits, self.meter.space.describe)
        broken = " and ".join(it.describe() for it in self.list_broken(finalists[0]))
        return (
            f"what met all limits in the search does not with fresh seeds: {broken}; take more "
            "--reps"
        )


def find_design(
    meter: Meter, goal: Goal, limits: Sequence[Limit], trials: int, reps: int, fresh: int, seed: int
) -> Design:
    """Search a space for the design that is best under limits.

    Args:
        meter: plays the markets.
        goal: what is to be best.
        limits: the constraints.
        trials: designs that are looked at, at most; at least one generation.
        reps: seeds of each in the search, the same for all.
        fresh: seeds of each finalist, which the search has not seen.
        seed: decides which designs are looked at.

    Raises:
        UsageError: a number is impossible.
        TrialError: a run failed.
    """
    check_numbers(trials, reps, fresh)
    doing = _Search(meter, goal, tuple(limits), reps)
    keys = len(meter.space.keys)
    members = count_members(keys)
    rounds = max(1, trials // members)
    meter.total = meter.runs_each * (rounds * members * reps + (1 + FINALISTS) * fresh)
    search(doing.evaluate, keys, len(limits), trials, seed)
    good = doing.list_feasible()[:FINALISTS]
    configured, *again = doing.play_again([(), *(it.point for it in good)], fresh)
    finalists = [
        Finalist(it.point, it.means[goal.measure], found, doing.judge(found))
        for it, found in zip(good, again, strict=True)
    ]
    finalists.sort(key=lambda it: (not doing.holds(it), goal.weigh(it.found[goal.measure].value)))
    best = finalists[0] if finalists and doing.holds(finalists[0]) else None
    tried = tuple(doing.tried.values())
    return Design(
        keys=meter.space.keys,
        goal=goal,
        limits=tuple(limits),
        reps=reps,
        fresh=fresh,
        tried=tried,
        finalists=tuple(finalists),
        configured=Finalist((), None, configured, doing.judge(configured)),
        best=best,
        binding="" if best else doing.say_what_binds(finalists),
        played=meter.played,
    )


def check_numbers(trials: int, reps: int, fresh: int) -> None:
    """Refuse numbers with which nothing can be found."""
    if not 1 <= trials <= 10**5:
        raise UsageError(f"{trials} trials: take 1 to 100,000")
    if not 1 <= reps <= 1_000 or not 2 <= fresh <= 10_000:
        raise UsageError(
            f"{reps} repetitions and {fresh} fresh ones: take 1 to 1,000 in the search, and 2 to "
            "10,000 fresh ones, of which there is an interval"
        )
