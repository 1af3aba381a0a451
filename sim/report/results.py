"""Results folders as plots read them: tables of `sim/economy/schema.py`, and their provenance."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moot.offchain.errors import UsageError
from moot.sim.economy.schema import RUNS, TABLES

DONE = "done"
_MAKE = "make it with `moot market CONFIG.toml -o DIR` or `moot sweep CONFIG.toml -o DIR`"
_AGAIN = "make the folder again"
_MAY_LACK: Mapping[str, Sequence[str]] = {
    "runs": ("error",),
    "jobs": ("provider", "strategy", "reputation", "conduct", "watcher"),
    "agents": ("left",),
    "events": ("job",),
    "receipts": ("checker", "finding", "challenged"),
    "games": ("agrees", *(name for name in TABLES["games"].names if name.startswith("played"))),
}
"""Columns in which there may be no value: a job may have no provider, and an agent stay."""

_MARKS: Mapping[str, Sequence[str]] = dict.fromkeys(TABLES, ()) | {
    "jobs": ("job",),
    "games": ("job",),
    "parties": ("game",),
    "spans": ("is_burn_in",),
    "receipts": ("job",),
    "service": ("job",),
}
"""Columns that tell which rows are of the burn-in."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed: its number, and its error in one line."""

    run: int
    error: str


class Results:
    """A results folder.

    Attributes:
        folder: where it is.
        provenance: `run.json` as it stands there.
        runs: the table `runs`, of the runs that are done.
        failures: the runs that failed.
        keys: the dotted keys that have several values in a sweep, each a column of `runs`.
        fixed: those that were set to one value, and that value.

    Args:
        folder: where it is.

    Raises:
        UsageError: it is no results folder, or something in it can't be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}; {_MAKE}")
        for name in ("run.json", "runs.parquet"):
            if not (folder / name).is_file():
                raise UsageError(f"{folder} is no results folder: it has no {name}; {_MAKE}")
        self.provenance = _read_json(folder / "run.json")
        runs = self._load("runs", RUNS)
        columns = [name for name in runs.column_names if name not in RUNS.names]
        values = {name: runs[name].unique().to_pylist() for name in columns}
        self.keys: tuple[str, ...] = tuple(name for name in columns if len(values[name]) > 1)
        self.fixed: Mapping[str, Any] = {
            name: values[name][0] for name in columns if len(values[name]) == 1
        }
        if not runs.num_rows:
            raise UsageError(f"{folder} has no runs; {_MAKE}")
        is_done = pc.equal(runs["status"], DONE)
        self.runs = runs.filter(is_done)
        self._check("runs", self.runs.select(RUNS.names))
        self.failures = [
            Failure(row["run"], row["error"] or "")
            for row in runs.filter(pc.invert(is_done)).select(["run", "error"]).to_pylist()
        ]

    def count_rows(self, name: str) -> int:
        """Return how many rows a table has: 0 where the folder has no such table.

        Raises:
            UsageError: the file is no table.
        """
        path = self.folder / f"{name}.parquet"
        if not path.is_file():
            return 0
        with _reading(path), pq.ParquetFile(path) as file:
            rows: int = file.metadata.num_rows
            return rows

    def find_key(self, *patterns: str) -> str | None:
        """Return the first key with several numbers that fits a pattern, earlier ones first.

        Args:
            patterns: as of a shell, such as `bond.eth` or `providers.*.count`.
        """
        for pattern in patterns:
            for key in self.keys:
                if fnmatchcase(key, pattern) and self._is_varied_number(key):
                    return key
        return None

    def _is_varied_number(self, key: str) -> bool:
        values = self.runs[key].drop_null()
        return is_number(values.type) and len(values.unique()) > 1

    def read(
        self,
        name: str,
        columns: Sequence[str],
        keys: Sequence[str] = (),
        *,
        with_burn_in: bool = False,
    ) -> pa.Table:
        """Return columns of a table, in the order of its rows; names are plain text in it.

        Args:
            name: of the table, such as `jobs`.
            columns: what is wanted of it; `run` is always there.
            keys: varied keys, whose values in each row's run become further columns.
            with_burn_in: whether rows about jobs of the burn-in are among them: of `jobs`, `games`,
                `parties`, `spans`, `receipts` and `service`; all others are of whole runs.

        Raises:
            UsageError: the table is not there, is damaged, or has no such column.
        """
        if name not in TABLES:
            raise UsageError.unknown("table", name, TABLES)
        schema = TABLES[name]
        for column in columns:
            if column not in schema.names:
                raise UsageError.unknown(f"column of {name}:", column, schema.names, "columns")
        wanted = ["run", *(column for column in columns if column != "run")]
        marks = () if with_burn_in or not sum(self.runs["burn_in"].to_pylist()) else _MARKS[name]
        wanted += [column for column in marks if column not in wanted]
        found = self._load(name, pa.schema([schema.field(column) for column in wanted]))
        self._check(name, found.select(wanted))
        places = pc.index_in(found["run"], value_set=self.runs["run"].combine_chunks())
        for key in keys:
            found = found.append_column(key, self.runs[key].take(places))
        found = found.filter(pc.is_valid(places))
        if marks:
            found = found.filter(self._find_late(name, found))
        extra = [column for column in marks if column not in columns]
        return found.drop_columns(extra) if extra else found

    def _find_late(self, name: str, found: pa.Table) -> pa.Array:
        """Return which rows are about no job of the burn-in."""
        if name == "spans":
            return pc.invert(found["is_burn_in"])
        if name == "parties":
            late = self.read("games", ["game"])
            known = set(zip(late["run"].to_pylist(), late["game"].to_pylist(), strict=True))
            pairs = zip(found["run"].to_pylist(), found["game"].to_pylist(), strict=True)
            return pa.array([pair in known for pair in pairs], pa.bool_())
        places = pc.index_in(found["run"], value_set=self.runs["run"].combine_chunks())
        return pc.greater_equal(found["job"], self.runs["burn_in"].take(places))

    def _check(self, name: str, found: pa.Table) -> None:
        """Refuse columns that lack a value in some row."""
        for column in found.column_names:
            if found[column].null_count and column not in _MAY_LACK.get(name, ()):
                path = self.folder / f"{name}.parquet"
                raise UsageError(f"{path} has rows without {column}; {_AGAIN}")

    def _load(self, name: str, schema: pa.Schema) -> pa.Table:
        """Return the columns of a schema, and of `runs` all others, too."""
        path = self.folder / f"{name}.parquet"
        with _reading(path):
            if name == "runs":
                found = pq.read_table(path)
            else:
                found = pq.read_table(path, columns=schema.names)
        lacking = [column for column in schema.names if column not in found.column_names]
        if lacking:
            raise UsageError(f"{path} has no column {lacking[0]}; {_AGAIN}")
        with _reading(path):
            for column in found.column_names:
                kind = schema.field(column).type if column in schema.names else found[column].type
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                place = found.column_names.index(column)
                found = found.set_column(place, column, found[column].cast(kind))
        return found


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column of this type has numbers."""
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what reading a table fails with into one line."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(f"there is no {path}; {_AGAIN}") from error
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"cannot read {path}: {reason}; {_AGAIN}") from error


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}; {_AGAIN}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} is not a JSON object; {_AGAIN}")
    return found
