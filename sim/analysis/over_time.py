"""Measures over time: what a market comes to in each span of its jobs, burn-in included."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moot.sim.analysis.stationarity import Verdict, average, judge
from moot.sim.economy.spans import SPANS, find_first
from moot.sim.estimates import Floats

COLUMNS = ("run", "job", "is_cheated", "outcome", "is_checked")
"""What of `jobs` is measured."""

WORDS: Mapping[str, str] = {
    "cheated": "jobs cheated in",
    "right": "right answers",
    "checked": "jobs checked",
    "gain": "gain a job",
}
"""The measures in words: shares of jobs, and what attackers gain, in ETH."""

Shares = Mapping[str, Floats]
"""By the name of a measure, a value for each span."""


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a market: its measures over time, of all repetitions.

    Attributes:
        jobs: of a run, the burn-in included.
        burn_in: how many of them are burn-in.
        series: by the name of a measure, a row for each repetition, with a value for each span.
    """

    jobs: int
    burn_in: int
    series: Mapping[str, Floats]

    @property
    def first(self) -> int:
        """The first span after the burn-in."""
        return next(it for it in range(SPANS + 1) if find_first(it, self.jobs) >= self.burn_in)

    def judge(self) -> Verdict:
        """Return whether the measures are stationary after the burn-in."""
        return judge({WORDS[name]: rows for name, rows in self.series.items()}, self.first)

    def list_rows(self) -> list[dict[str, Any]]:
        """Return a row for each span: its first job, whether it is burn-in, and the means."""
        means = {name: average(rows) for name, rows in self.series.items()}
        return [
            {"first_job": find_first(span, self.jobs), "is_burn_in": span < self.first}
            | {name: float(it[span]) if np.isfinite(it[span]) else None for name, it in means.items()}
            for span in range(SPANS)
        ]


def measure_shares(table: pa.Table, totals: Mapping[int, int]) -> dict[int, dict[str, Floats]]:
    """Return the shares of each run in each span.

    Args:
        table: `COLUMNS` of `jobs`.
        totals: by the number of each run, how many jobs it has, the burn-in included.
    """
    runs = np.fromiter(totals, np.int64, len(totals))
    order = np.argsort(runs)
    places = order[np.searchsorted(runs, table["run"].to_numpy(), sorter=order)]
    jobs = np.fromiter(totals.values(), np.int64, len(totals))[places]
    cells = places * SPANS + table["job"].to_numpy() * SPANS // jobs
    count = np.bincount(cells, minlength=len(totals) * SPANS)
    marked = {
        "cheated": table["is_cheated"],
        "right": pc.equal(table["outcome"].cast(pa.string()), "right"),
        "checked": table["is_checked"],
    }
    found: dict[int, dict[str, Floats]] = {run: {} for run in totals}
    for name, column in marked.items():
        weights = column.to_numpy().astype(np.float64)
        sums = np.bincount(cells, weights, minlength=len(totals) * SPANS)
        with np.errstate(invalid="ignore"):
            shares = (sums / count).reshape(len(totals), SPANS)
        for place, run in enumerate(totals):
            found[run][name] = shares[place]
    return found


def make_course(runs: Sequence[Mapping[str, Any]], shares: Mapping[int, Shares]) -> Course:
    """Return the course of a setting.

    Args:
        runs: the rows of `runs` of its repetitions that are done, at least one.
        shares: of all runs, by their numbers.
    """
    own = [shares[row["run"]] for row in runs]
    series = {name: np.array([each[name] for each in own]) for name in own[0]}
    return Course(runs[0]["jobs"] + runs[0]["burn_in"], runs[0]["burn_in"], series)


def read_shares(folder: Path, runs: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Floats]]:
    """Return the shares of the runs of a results folder that are done, by their numbers."""
    totals = {row["run"]: row["jobs"] + row["burn_in"] for row in runs}
    table = pq.read_table(folder / "jobs.parquet", columns=list(COLUMNS))
    return measure_shares(table.filter(pc.is_in(table["run"], pa.array(totals))), totals)
