"""The watch of a run: takes the rows of its tables, and tells means of some jobs at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from moot.sim.economy.schema import JOBS, LEDGER

POINTS = 100
"""The points of a run, each of as many jobs; a run of fewer jobs has a point for each."""

GWEI = 10**9
"""The number of gwei in an ETH, and of wei in a gwei."""

Point = dict[str, Any]
"""A point as plain values: `jobs`, `served` and `blocks` that it is of, and the means of these."""

_JOB: Final = {name: place for place, name in enumerate(JOBS.names)}
_NUMBER, _PROVIDER, _STRATEGY = _JOB["job"], _JOB["provider"], _JOB["strategy"]
_REPUTATION, _OUTCOME = _JOB["reputation"], _JOB["outcome"]
_CHEATED, _CHECKED = _JOB["is_cheated"], _JOB["is_checked"]
_PRICE, _FEES = _JOB["price_gwei"], _JOB["fees_gwei"]
_BLOCK, _BASE_FEE, _OPEN, _PROVIDERS = (
    LEDGER.names.index(name) for name in ("block", "base_fee_wei", "open_jobs", "providers")
)


@dataclass(slots=True)
class _Sums:
    """The sums of the jobs and blocks of a point."""

    jobs: int = 0
    served: int = 0
    cheated: int = 0
    right: int = 0
    checked: int = 0
    price_gwei: int = 0
    fees_gwei: int = 0
    blocks: int = 0
    open_jobs: int = 0
    base_fee_wei: int = 0
    block: int = 0
    providers: int = 0
    strategies: dict[str, list[float]] = field(default_factory=dict)

    def describe(self) -> Point:
        """Return the point; a mean of nothing is None."""
        jobs, served, blocks = self.jobs, self.served, self.blocks
        return {
            "jobs": jobs,
            "served": served,
            "blocks": blocks,
            "block": self.block,
            "providers": self.providers,
            "cheated": self.cheated / jobs if jobs else None,
            "right": self.right / jobs if jobs else None,
            "checked": self.checked / jobs if jobs else None,
            "price_eth": self.price_gwei / GWEI / served if served else None,
            "fees_eth": self.fees_gwei / GWEI / served if served else None,
            "open_jobs": self.open_jobs / blocks if blocks else None,
            "base_fee_gwei": self.base_fee_wei / GWEI / blocks if blocks else None,
            "strategies": {
                name: {"jobs": int(count), "reputation": total / count}
                for name, (count, total) in self.strategies.items()
            },
        }


class Watch:
    """A sink that keeps no rows: of each point it tells the means.

    A point is of the jobs with so many numbers, and of the blocks from the first of them that is
    settled, or that nobody serves, to the first of the next point. It is told when the next one
    begins, and again where one of its jobs is settled later.

    Args:
        jobs: how many the run has.
        tell: takes the number of a point, from 0, and the point.
    """

    def __init__(self, jobs: int, tell: Callable[[int, Point], None]) -> None:
        self._jobs, self._tell = jobs, tell
        self._points = [_Sums() for _ in range(min(jobs, POINTS))]
        self._last = 0
        self._changed = {0}

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """Take a row of a table."""
        if table == "jobs":
            self._add_job(row)
        elif table == "ledger":
            sums = self._points[self._last]
            sums.blocks += 1
            sums.open_jobs += row[_OPEN]
            sums.base_fee_wei += row[_BASE_FEE]
            sums.block, sums.providers = row[_BLOCK], row[_PROVIDERS]

    def tell(self) -> None:
        """Tell what has changed, the point that is not over among it."""
        for place in sorted(self._changed):
            self._tell(place, self._points[place].describe())
        self._changed = {self._last}

    def _add_job(self, row: tuple[Any, ...]) -> None:
        place = row[_NUMBER] * len(self._points) // self._jobs
        if place > self._last:
            self._changed.update(range(self._last, place))
            self._last = place
            self.tell()
        self._changed.add(place)
        sums = self._points[place]
        sums.jobs += 1
        sums.cheated += row[_CHEATED]
        sums.right += row[_OUTCOME] == "right"
        sums.checked += row[_CHECKED]
        if row[_PROVIDER] is None:
            return
        sums.served += 1
        sums.price_gwei += row[_PRICE]
        sums.fees_gwei += row[_FEES]
        own = sums.strategies.setdefault(row[_STRATEGY], [0, 0.0])
        own[0] += 1
        own[1] += row[_REPUTATION]
