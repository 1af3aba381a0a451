"""The results folder of a sweep: parts of runs, and in the end the tables of them all.

It holds:

    run.json                    where the tables come from; a folder belongs to one sweep
    parts/<run>/                what a finished run has left, until all are finished
    <table>.parquet, .csv       the rows of all runs, in the order of runs
    runs.parquet, .csv          one row for each run; when it is there the sweep is complete
    .lock                       held by the process that is at work in the folder
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from moot.offchain.errors import UsageError
from moot.sim.economy.records import TableFile, join_tables, make_table
from moot.sim.economy.schema import RUNS, TABLES
from moot.sim.experiments.parts import read_result
from moot.sim.experiments.plan import Plan, Run
from moot.sim.experiments.provenance import format_provenance
from moot.sim.writing import reporting, write_whole

PROVENANCE = "run.json"
_LOCK = ".lock"
_FIRST_COUNT = RUNS.names.index("jobs")


class ResultsFolder:
    """A folder in which a sweep is at work; use it in a `with` statement.

    Args:
        path: an empty or missing folder, or that of the same sweep, to go on with it.
        plan: the sweep.

    Attributes:
        path: the folder.
        parts: the folder of parts.

    Raises:
        UsageError: another sweep or something else is there, a process is at work in it, or the
            operating system refuses.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path, self.parts, self._plan = path, path / "parts", plan
        self._lock, self._is_new = -1, False
        self._made = [place for place in (path, *path.parents) if not place.exists()]
        try:
            with reporting(path):
                path.mkdir(parents=True, exist_ok=True)
                self._check_foreign()
                self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._hold()
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_complete(self) -> bool:
        """Whether the tables of all runs are there."""
        return (self.path / "runs.parquet").is_file()

    def list_missing(self) -> Iterator[Run]:
        """Yield the runs that have left no part, in the order of their numbers."""
        if not self.is_complete:
            there = self._list_parts()
            yield from (run for run in self._plan.list_runs() if str(run.number) not in there)

    def finish(self) -> None:
        """Join the parts, if that has not been done, and take them away.

        Raises:
            CannotWrite: the operating system refuses. The parts are still there then.
        """
        if not self.is_complete:
            numbers = range(self._plan.size)
            for name, schema in TABLES.items():
                paths = (self.parts / str(number) / f"{name}.parquet" for number in numbers)
                self._replace(name, (path for path in paths if path.exists()), schema)
            self._write_runs()
        shutil.rmtree(self.parts, ignore_errors=True)

    def close(self) -> None:
        """Let others into the folder; what was begun here and has come to nothing goes away."""
        if self._is_new and not self.is_complete and not self._list_parts():
            shutil.rmtree(self.parts, ignore_errors=True)
            for name in (PROVENANCE, _LOCK):
                (self.path / name).unlink(missing_ok=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        for place in self._made:
            with suppress(OSError):  # it holds something
                place.rmdir()

    def _list_parts(self) -> set[str]:
        """Return the names of finished parts."""
        if not self.parts.is_dir():
            return set()
        return {part.name for part in self.parts.iterdir() if not part.name.startswith(".")}

    def _check_foreign(self) -> None:
        """Refuse a folder that holds anything, and is no results folder."""
        names = sorted(it.name for it in self.path.iterdir() if not it.name.startswith("."))
        if names and PROVENANCE not in names:
            raise UsageError(
                f"{self.path} holds {names[0]} and no {PROVENANCE}; choose an empty or new folder"
            )

    def _hold(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{self.path} is in use by another process; wait for it, or choose another folder"
            ) from None

    def _begin(self) -> None:
        """Check that the folder is this sweep's, or make it so; clear away what is half done."""
        written = self.path / PROVENANCE
        told = format_provenance(self._plan)
        if written.exists():
            self._compare(written, told)
        else:
            self._is_new = True
            write_whole(written, told)
        with reporting(self.parts):
            self.parts.mkdir(exist_ok=True)
            for place in self.parts.glob(".*"):
                shutil.rmtree(place)

    def _compare(self, written: Path, told: str) -> None:
        """Refuse the folder of another sweep."""
        try:
            before = json.loads(written.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{written} can't be read: {error}; choose another folder") from None
        now = json.loads(told)
        if before != now:
            others = before if isinstance(before, dict) else {}
            different = [name for name in now if others.get(name) != now[name]]
            raise UsageError(
                f"{self.path} holds another sweep (not the same {' and '.join(different)}); "
                "choose another folder, or delete it"
            )

    def _replace(self, name: str, paths: Iterator[Path], schema: pa.Schema) -> None:
        """Join the parts of a table aside, and give the result its name."""
        aside = self.path / f".{name}.parquet"
        try:
            join_tables(paths, aside, schema)
            self._name(aside)
        finally:
            for suffix in (".parquet", ".csv"):
                aside.with_suffix(suffix).unlink(missing_ok=True)

    def _name(self, aside: Path) -> None:
        """Give a table that was written aside its name; that of the Parquet file comes last."""
        with reporting(aside):
            for path in (aside.with_suffix(".csv"), aside):
                path.replace(path.with_name(path.name.removeprefix(".")))

    def _write_runs(self) -> None:
        """Write the table of runs."""
        schema = make_runs_schema(self._plan)
        rows = [self._make_row(run) for run in self._plan.list_runs()]
        aside = self.path / ".runs.parquet"
        try:
            file = TableFile(aside, schema, with_csv=True)
            try:
                file.write(make_table(rows, schema))
            except BaseException:
                file.abandon()
                raise
            file.close()
            self._name(aside)
        finally:
            for suffix in (".parquet", ".csv"):
                aside.with_suffix(suffix).unlink(missing_ok=True)

    def _make_row(self, run: Run) -> tuple[Any, ...]:
        told = read_result(self.parts / str(run.number))
        told |= {"run": run.number, "rep": run.rep, "seed": run.config.seed}
        columns = [told.get(name) for name in RUNS.names]
        kinds = (field.type for field in list_key_fields(self._plan))
        values = [
            value if kind == pa.float64() else str(value)
            for value, kind in zip(run.setting, kinds, strict=True)
        ]
        return (*columns[:_FIRST_COUNT], *values, *columns[_FIRST_COUNT:])


def make_runs_schema(plan: Plan) -> pa.Schema:
    """Return the columns of `runs`: a sweep has one more for each key, before the counts."""
    fields = list(RUNS)
    return pa.schema([*fields[:_FIRST_COUNT], *list_key_fields(plan), *fields[_FIRST_COUNT:]])


def list_key_fields(plan: Plan) -> list[pa.Field]:
    """Return the columns of the varied keys: floats if all values are numbers, or else texts.

    A key that has the name of another column has `set.` before it.
    """
    fields = []
    for one in plan.varied:
        is_number = all(type(value) in (int, float) for value in one.values)
        name = f"set.{one.key}" if one.key in RUNS.names else one.key
        fields.append(pa.field(name, pa.float64() if is_number else pa.string()))
    return fields
