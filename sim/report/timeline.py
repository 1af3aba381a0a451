"""The time of a market: means of its jobs and blocks in each twentieth of the jobs."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from moot.sim.economy.spans import SPANS, find_first
from moot.sim.report.drawing import GREY
from moot.sim.report.results import Results

Values = Mapping[float, Sequence[float]]
"""By the middle of a twentieth, in percent of the jobs, a mean for each run that has one."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

X_TITLE = "jobs that have arrived (%)"


class Timeline:
    """The twentieths of the jobs of each run of a results folder, burn-in included.

    A block belongs to the twentieth of the last job that has arrived by then.

    Args:
        results: the folder; at least one of its runs is done.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        columns = ("run", "jobs", "burn_in")
        told = results.runs.select(columns).sort_by("run")
        self._runs, jobs, burn_in = (told[name].to_numpy().astype(np.int64) for name in columns)
        self._jobs = jobs + burn_in
        self._burn_in = burn_in

    @property
    def first(self) -> int:
        """The first twentieth after the burn-in, of all runs."""
        pairs = zip(self._jobs.tolist(), self._burn_in.tolist(), strict=True)
        return max(
            next((it for it in range(SPANS) if find_first(it, jobs) >= burn_in), SPANS)
            for jobs, burn_in in pairs
        )

    def average_jobs(self, column: str, factor: float) -> Values:
        """Return the means of a column of `jobs`, times a factor, of jobs that were served."""
        served = self._read_served(column)
        cells = self._find_cells(served["run"].to_numpy(), served["job"].to_numpy())
        return self._average(cells, served[column].to_numpy().astype(np.float64) * factor)

    def average_strategies(self, column: str) -> Mapping[str, Values]:
        """Return the means of a column of `jobs` by the strategy of the provider."""
        served = self._read_served(column, "strategy")
        found: dict[str, Values] = {}
        for name in sorted(served["strategy"].unique().to_pylist()):
            own = served.filter(pc.equal(served["strategy"], name))
            cells = self._find_cells(own["run"].to_numpy(), own["job"].to_numpy())
            found[name] = self._average(cells, own[column].to_numpy().astype(np.float64))
        return found

    def average_blocks(self, column: str, factor: float) -> Values:
        """Return the means of a column of `ledger`, times a factor, over its blocks."""
        blocks = self._results.read("ledger", ["block", column])
        runs = blocks["run"].to_numpy()
        cells = self._find_cells(runs, self._count_arrived(runs, blocks["block"].to_numpy()))
        return self._average(cells, blocks[column].to_numpy().astype(np.float64) * factor)

    def _read_served(self, *columns: str) -> pa.Table:
        wanted = ["job", "provider", *columns]
        jobs = self._results.read("jobs", wanted, with_burn_in=True)
        return jobs.filter(pc.is_valid(jobs["provider"]))

    def _count_arrived(self, runs: Ints, blocks: Ints) -> Ints:
        """Return the number of the last job that has arrived by each block of a run."""
        jobs = self._results.read("jobs", ["arrived"], with_burn_in=True)
        wide = 1 + max(int(jobs["arrived"].to_numpy().max()), int(blocks.max()))
        # One sorted row of all runs, one behind the other: each block's place in it counts.
        offsets = np.searchsorted(self._runs, jobs["run"].to_numpy()) * wide
        arrived = np.sort(jobs["arrived"].to_numpy() + offsets)
        place = np.searchsorted(self._runs, runs)
        before = np.searchsorted(arrived, place * wide)
        found: Ints = np.searchsorted(arrived, blocks + place * wide, "right") - before - 1
        return found

    def _find_cells(self, runs: Ints, jobs: Ints) -> Ints:
        """Return the twentieth of each job, as a place in a row of all runs' twentieths."""
        places = np.searchsorted(self._runs, runs)
        spans = (jobs * SPANS // self._jobs[places]).clip(0, SPANS - 1)
        cells: Ints = places * SPANS + spans
        return cells

    def _average(self, cells: Ints, values: Floats) -> Values:
        size = len(self._runs) * SPANS
        shape = (len(self._runs), SPANS)
        counts = np.bincount(cells, minlength=size).reshape(shape)
        sums = np.bincount(cells, values, size).reshape(shape)
        return {
            (span + 0.5) * 100 / SPANS: (sums[own, span] / counts[own, span]).tolist()
            for span in range(SPANS)
            if (own := counts[:, span] > 0).any()
        }


def mark_burn_in(figure: go.Figure, first: int) -> None:
    """Shade the burn-in of a figure over time, which the first twentieth after it ends."""
    figure.update_xaxes(range=[0, 100])
    if first:
        figure.add_vrect(
            x0=0,
            x1=first * 100 / SPANS,
            fillcolor=GREY,
            opacity=0.15,
            line_width=0,
            annotation={"text": "burn-in", "font": {"color": "#444444"}},
            annotation_position="top left",
        )


def describe_burn_in(first: int) -> str:
    """Return the sentence about the burn-in that a caption ends with."""
    if not first:
        return "There is no burn-in: all jobs count."
    return f"The first {first * 100 // SPANS}% are burn-in, which no other figure counts."
