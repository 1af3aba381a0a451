"""Simulated markets: one, or one for every combination of settings, and what they leave."""

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from moot.asking import Asked, ask, vary
from moot.display import Displayable, make_frame
from moot.offchain.errors import MootError, UsageError
from moot.sim.economy.audits import list_shortfalls
from moot.sim.economy.config import Config
from moot.sim.economy.plugins import holding
from moot.sim.economy.schema import TABLES
from moot.sim.economy.service.sums import sum_receipts, sum_service
from moot.sim.experiments.engines import Engine, Here, Processes
from moot.sim.experiments.parts import Ended, Progress, ignore
from moot.sim.experiments.plan import Plan, make_plan
from moot.sim.experiments.sweep import run_sweep, summarise_results
from moot.summing import Row, describe, sum_accounts, sum_gas, sum_strategies, tabulate_calls
from moot.tables import to_pandas, to_polars

if TYPE_CHECKING:
    from moot.sim.analysis.over_time import Course
    from moot.sim.experiments.values import Varied


OnFailure = Callable[[Plan, Ended], None]
"""(the plan of a sweep, the end of a run that has failed)."""


class _Place:
    """A folder of results; a temporary one goes when nothing needs it any more."""

    def __init__(self, output: Path | str | None) -> None:
        if output is None:
            made = Path(tempfile.mkdtemp(prefix="moot-"))
            weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        self.path = made / "results" if output is None else Path(output)


@dataclass(frozen=True, slots=True)
class Results(Displayable):
    """The results of one market, or of a sweep of markets.

    Attributes:
        folder: where the tables are, as Parquet; `moot report FOLDER` draws them.
        main: the table that the conversions take unless another is named: `jobs`, a row for each
            job, of one market; `runs`, a row for each run, of a sweep.
        counts: of all runs together, such as `jobs`, `disputes` and `wrong_verdicts`.
        seconds: how long it took.
        peak_mib: the memory of the largest process.
        plan: which runs there are: `plan.keys`, `plan.settings` and `plan.reps`.
        played: how many runs were played now, and not found in the folder.

    Example:
        >>> import moot
        >>> results = moot.simulate("baseline", jobs=50)
        >>> results.counts["jobs"], results.to_arrow("runs").num_rows
        (50, 1)
    """

    folder: Path
    main: str
    counts: Mapping[str, int]
    plan: Plan = field(repr=False)
    seconds: float
    peak_mib: float
    played: int
    _place: _Place = field(repr=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what did not happen as it was asked for: the rate of audits, so far."""
        return tuple(list_shortfalls(self._read("runs")))

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables; docs/reference/market.md has their columns and units."""
        return ("runs", *TABLES)

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """Return a table as a `pyarrow.Table`; money is in gwei, time in blocks.

        Raises:
            UsageError: there is no such table.
        """
        name = table or self.main
        if name not in self.tables:
            raise UsageError.unknown("table", name, self.tables)
        return pq.read_table(self.folder / f"{name}.parquet")

    def to_pandas(self, table: str | None = None) -> Any:
        """Return a table as a `pandas.DataFrame`; raises UsageError without pandas."""
        return to_pandas(self.to_arrow(table))

    def to_polars(self, table: str | None = None) -> Any:
        """Return a table as a `polars.DataFrame`; raises UsageError without polars."""
        return to_polars(self.to_arrow(table))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, the row of each run, and the warnings."""
        runs = self.to_arrow("runs").to_pylist()
        return {"counts": dict(self.counts), "runs": runs, "warnings": list(self.warnings)}

    def follow(self) -> "list[Course | None]":
        """Return the measures over time of each setting, burn-in included, over its runs.

        `judge()` of one says whether they are stationary after the burn-in, and `list_rows()` has
        a row for each twentieth of the jobs. None where no run of a setting is done.

        Example:
            >>> import moot
            >>> (course,) = moot.simulate("baseline", jobs=400).follow()
            >>> course.burn_in, course.judge().is_stationary
            (0, True)
        """
        from moot.sim.analysis.over_time import read_courses  # noqa: PLC0415 - imports numpy

        return read_courses(self.folder, self.to_arrow("runs").to_pylist(), self.plan.reps)

    def sum_strategies(self) -> list[Row]:
        """Return what became of the agents of each role and strategy of one market together."""
        return sum_strategies(self._read)

    def sum_accounts(self) -> list[Row]:
        """Return what became of the accounts of each strategy on the chain, in all played jobs."""
        return sum_accounts(self._read)

    def sum_gas(self) -> dict[str, dict[str, int]]:
        """Return the gas of each stage, modelled and played, of disputes that were both."""
        return sum_gas(self._read)

    def tabulate_calls(self) -> list[Row]:
        """Return the gas of the accepted calls of all played jobs, by stage and function."""
        return tabulate_calls(self._read)

    def sum_receipts(self) -> list[Row]:
        """Return what became of the receipts of each strategy; none if no job is by receipt."""
        return sum_receipts(self.to_arrow("receipts"))

    def sum_service(self) -> list[Row]:
        """Return how often each call of the service was made, and what it used."""
        return sum_service(self.to_arrow("service"))

    def describe(self) -> Row:
        """Return the row of one market's run and all sums, as `moot market --json` prints them."""
        told = describe(self._read)
        found = {"receipts": self.sum_receipts(), "service": self.sum_service()}
        told |= {name: rows for name, rows in found.items() if rows}
        (course,) = self.follow()
        return told if course is None else told | {"stationarity": course.describe()}

    def _read(self, table: str) -> list[Row]:
        rows: list[Row] = self.to_arrow(table).to_pylist()
        return rows

    def make_page(self) -> str:
        """Return the report: one HTML file with plots, which asks nothing of the network."""
        from moot.sim.report.page import make_page  # noqa: PLC0415 - imports plotly
        from moot.sim.report.plots.load import load_plots  # noqa: PLC0415 - likewise
        from moot.sim.report.results import Results as Read  # noqa: PLC0415 - likewise

        return make_page(Read(self.folder), load_plots(())).text

    def _repr_html_(self) -> str:
        return make_frame(self.make_page())


def simulate(
    config: Config | str = "baseline",
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as the option of the command line
    output: Path | str | None = None,
    progress: Progress = ignore,
    **settings: Any,
) -> Results:
    """Simulate one market.

    Args:
        config: a preset, such as `baseline` or `weak-audit`; the path of a TOML file; or a
            configuration.
        set: values by their dotted keys, such as `{"chain.tip_gwei": 2}`.
        output: a new folder for the tables; None takes a temporary one, which goes with the
            results.
        progress: is called with a name, how much of it is done, and how much there is.
        settings: values by keys whose point is a low line, such as `bond_eth=0.5` or `seed=1`. A
            rule (`pricing`, `matching`, `bond`, `audit`, `reputation`) is a name or an object
            that is held in memory. `providers` and `watchers` are lists of (strategy, count), and
            a strategy is a name or an object, of which each agent gets a copy.

    Raises:
        UsageError: a key is unknown, or a value impossible.
        MootError: the run has failed.

    Example:
        >>> import moot
        >>> results = moot.simulate("weak-audit", bond_eth=0.5, jobs=50)
        >>> results.to_arrow().num_rows
        50
    """
    asked = ask(config, set or {}, settings)
    failures: list[Ended] = []

    def keep(_: Plan, ended: Ended) -> None:
        failures.append(ended)

    results = _play(asked, (), 1, output, Here(), progress, keep, "jobs")
    if results.counts["failed"]:
        raise MootError(f"the run failed: {failures[0].error if failures else 'see runs.csv'}")
    return results


def sweep(
    config: Config | str = "baseline",
    varied: Mapping[str, Sequence[Any] | str] | None = None,
    *,
    reps: int = 1,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as the option of the command line
    output: Path | str | None = None,
    processes: int = 1,
    engine: Engine | None = None,
    progress: Progress = ignore,
    on_failure: OnFailure | None = None,
    **settings: Any,
) -> Results:
    """Simulate a market for every combination of values, each with the same seeds.

    Args:
        config: as of `simulate`; `set` and `settings`, too, hold for all runs.
        varied: by dotted keys, the values of each: a sequence, or a text such as `0.2:2:0.2`.
        reps: how often each combination is run, with other seeds.
        set: values by their dotted keys.
        output: a folder for the tables, new or that of the same sweep, to go on with it.
        processes: how many play at once; 1 where something is held in memory.
        engine: what plays the runs, instead of so many processes.
        progress: is called with a name, how much of it is done, and how much there is.
        on_failure: is told of each run that fails, which is a row with its error.
        settings: as of `simulate`.

    Raises:
        UsageError: a key is unknown, or a value impossible.
        SweepError: a process ended before its time; what is finished stays in the folder.

    Example:
        >>> import moot
        >>> results = moot.sweep("baseline", {"bond.eth": [0.5, 1]}, jobs=20)
        >>> results.to_arrow()["bond.eth"].to_pylist()
        [0.5, 1.0]
    """
    asked = ask(config, set or {}, settings)
    if asked.held and (processes > 1 or engine is not None):
        raise UsageError(
            "a rule or strategy that is held in memory is played in this process; leave "
            "`processes` and `engine` out, or name it as path/to/file.py:Class"
        )
    chosen = engine or (Processes(processes) if processes > 1 else Here())
    keys = vary(varied or {})
    return _play(asked, keys, reps, output, chosen, progress, on_failure, "runs")


def _play(
    asked: Asked,
    varied: "Sequence[Varied]",
    reps: int,
    output: Path | str | None,
    engine: Engine,
    progress: Progress,
    on_failure: OnFailure | None,
    main: str,
) -> Results:
    """Play the runs of a plan, and return what they leave."""
    from moot.sim.economy.simulate import prepare  # noqa: PLC0415 - imports torch
    from moot.sim.economy.simulate import simulate as play  # noqa: PLC0415 - likewise

    began, place = time.monotonic(), _Place(output)
    with holding(asked.held):
        plan = make_plan(asked.config, varied, reps)
        tell = None if on_failure is None else partial(on_failure, plan)
        swept = run_sweep(plan, place.path, engine, play, progress, tell, prepare)
    counts = summarise_results(place.path)
    seconds = time.monotonic() - began
    return Results(place.path, main, counts, plan, seconds, swept.peak_mib, swept.played, place)
