"""Measures over time: what a market comes to in each span of its jobs, burn-in included."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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

SHARES: Mapping[str, Callable[[Any], Any]] = {
    "cheated": lambda table: table["is_cheated"],
    "right": lambda table: pc.equal(table["outcome"].cast(pa.string()), "right"),
    "checked": lambda table: table["is_checked"],
}
"""Of each measure of jobs, the column that marks them."""

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
        spans = range(SPANS)
        return next((it for it in spans if find_first(it, self.jobs) >= self.burn_in), SPANS)

    def judge(self) -> Verdict:
        """Return whether the measures are stationary after the burn-in."""
        return judge({WORDS[name]: rows for name, rows in self.series.items()}, self.first)

    def list_rows(self) -> list[dict[str, Any]]:
        """Return a row for each span: its first job, whether it is burn-in, and the means."""
        means = {name: average(rows) for name, rows in self.series.items()}
        return [
            {"first_job": find_first(span, self.jobs), "is_burn_in": span < self.first}
            | {
                name: float(it[span]) if np.isfinite(it[span]) else None
                for name, it in means.items()
            }
            for span in range(SPANS)
        ]

    def describe(self) -> dict[str, Any]:
        """Return all of it as plain values, for `--json`."""
        verdict = self.judge()
        return {
            "burn_in": self.burn_in,
            "stationary": verdict.is_stationary if verdict.is_known else None,
            "probabilities": dict(verdict.probabilities),
            "over_time": self.list_rows(),
        }


def measure_shares(
    tables: Iterable[pa.Table | pa.RecordBatch], totals: Mapping[int, int]
) -> dict[int, dict[str, Floats]]:
    """Return the shares of each run in each span.

    Args:
        tables: `COLUMNS` of `jobs`, in any number of parts; rows of other runs are left out.
        totals: by the number of each run, how many jobs it has, the burn-in included.
    """
    runs, jobs = (np.fromiter(it, np.int64, len(totals)) for it in (totals, totals.values()))
    order = np.argsort(runs)
    shape = (len(totals), SPANS)
    count, sums = np.zeros(shape), {name: np.zeros(shape) for name in SHARES}
    for table in tables:
        run = np.asarray(table["run"])
        places = order[np.searchsorted(runs[order], run).clip(max=len(runs) - 1)]
        is_there = runs[places] == run
        spans = np.asarray(table["job"]) * SPANS // jobs[places].clip(min=1)
        cells = places * SPANS + spans.clip(0, SPANS - 1)
        size = len(totals) * SPANS
        count += np.bincount(cells[is_there], minlength=size).reshape(shape)
        for name, find in SHARES.items():
            marked = np.asarray(find(table), np.float64)[is_there]
            sums[name] += np.bincount(cells[is_there], marked, size).reshape(shape)
    with np.errstate(invalid="ignore"):
        shares = {name: each / count for name, each in sums.items()}
    return {
        run: {name: each[place] for name, each in shares.items()}
        for place, run in enumerate(totals)
    }


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
    """Return the shares of some runs of a results folder that are done, by their numbers."""
    totals = {row["run"]: row["jobs"] + row["burn_in"] for row in runs}
    with pq.ParquetFile(folder / "jobs.parquet") as file:
        return measure_shares(file.iter_batches(columns=list(COLUMNS)), totals)


def read_courses(folder: Path, runs: Sequence[Mapping[str, Any]], reps: int) -> list[Course | None]:
    """Return the course of each setting of a results folder; None where no run is done.

    Args:
        folder: where it is.
        runs: all rows of `runs`, in their order.
        reps: how often each setting was run.
    """
    settings = [
        [row for row in runs[start : start + reps] if row["status"] == "done"]
        for start in range(0, len(runs), reps)
    ]
    shares = read_shares(folder, [row for done in settings for row in done])
    return [make_course(done, shares) if done else None for done in settings]
