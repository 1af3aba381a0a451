"""The tables of a run on disk: rows are gathered, and written column by column, many at a time."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from moot.sim.economy.schema import TABLES
from moot.sim.writing import reporting

CHUNK_ROWS = 1 << 16
"""Rows of a table that are in memory at most before they are written."""

_BATCHES = 64
"""A chunk is turned into columns in so many parts: numbers are read while they are in a cache."""

COMPRESSION = "zstd"


class TableFile:
    """A table that grows on disk, as Parquet and, if asked for, as CSV beside it.

    The same batches give the same bytes: no time, host or process is written. Every method raises
    UsageError when the operating system refuses.

    Args:
        path: of the Parquet file; that of the CSV file has the suffix `.csv`.
        schema: of the table.
        with_csv: whether there is a CSV file, too.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, with_csv: bool) -> None:
        self._path, self._schema = path, schema
        self._files: list[Any] = []
        self._writer: pq.ParquetWriter | None = None
        self._csv: pc.CSVWriter | None = None
        try:
            self._open(with_csv=with_csv)
        except BaseException:
            self.abandon()
            raise

    def _open(self, *, with_csv: bool) -> None:
        with reporting(self._path):
            self._files.append(self._path.open("wb"))
            self._writer = pq.ParquetWriter(self._files[0], self._schema, compression=COMPRESSION)
        if with_csv:
            with reporting(self._path.with_suffix(".csv")):
                self._files.append(self._path.with_suffix(".csv").open("wb"))
                self._csv = pc.CSVWriter(self._files[1], self._schema)

    def write(self, table: pa.Table) -> None:
        """Write rows: they become one group of the Parquet file."""
        assert self._writer is not None
        with reporting(self._path):
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        if self._csv is not None:
            with reporting(self._path.with_suffix(".csv")):
                self._csv.write_table(table)

    def close(self) -> None:
        """Write the end of the table."""
        assert self._writer is not None
        try:
            with reporting(self._path):
                self._writer.close()
                self._files[0].close()
            if self._csv is not None:
                with reporting(self._path.with_suffix(".csv")):
                    self._csv.close()
                    self._files[1].close()
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Leave the table as far as it is: nobody will read it."""
        if self._writer is not None:
            self._writer.is_open = False  # it would write the table's end when it is forgotten
        for file in self._files:
            with suppress(OSError):
                file.close()


class Tables:
    """The writer of `schema.TABLES`, each to `<name>.parquet` in a folder.

    A row is a tuple with a value for each column, the run's number first. Use it in a `with`
    statement: the tables are complete when that ends, unless it ends by an exception.

    Args:
        folder: an existing folder.

    Raises:
        UsageError: here and in all methods, when the operating system refuses to write.
    """

    def __init__(self, folder: Path) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        self._batches: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        self._files: dict[str, TableFile] = {}
        try:
            for name, schema in TABLES.items():
                path = folder / f"{name}.parquet"
                self._files[name] = TableFile(path, schema, with_csv=False)
        except BaseException:
            self._abandon()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._abandon()

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """Add a row to a table; it is checked when it is written."""
        rows = self._rows[table]
        rows.append(row)
        if len(rows) * _BATCHES == CHUNK_ROWS:
            self._gather(table)
            if len(self._batches[table]) == _BATCHES:
                self._flush(table)

    def close(self) -> None:
        """Write what is left, and the end of every table."""
        try:
            for name, file in self._files.items():
                self._flush(name)
                file.close()
        except BaseException:
            self._abandon()
            raise

    def _gather(self, name: str) -> None:
        rows = self._rows[name]
        if rows:
            self._batches[name].append(make_table(rows, TABLES[name]))
            rows.clear()

    def _flush(self, name: str) -> None:
        self._gather(name)
        batches = self._batches[name]
        if batches:
            together = pa.concat_tables(batches).unify_dictionaries().combine_chunks()
            self._files[name].write(together)
            batches.clear()

    def _abandon(self) -> None:
        for file in self._files.values():
            file.abandon()


def make_table(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table; at least one row."""
    columns = zip(*rows, strict=True)
    kinds = (field.type for field in schema)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def join_tables(parts: Iterable[Path], target: Path, schema: pa.Schema) -> None:
    """Write the rows of several Parquet files, one after the other, to one and to a CSV file.

    The result depends on the rows alone, and not on how they are divided among files. No more than
    two chunks of rows are in memory.

    Args:
        parts: the files, in order.
        target: the Parquet file; the CSV file is beside it.
        schema: of all of them.

    Raises:
        UsageError: the operating system refuses to write.
    """
    file = TableFile(target, schema, with_csv=True)
    waiting: list[pa.Table] = []
    try:
        for path in parts:
            with pq.ParquetFile(path) as part:
                for group in range(part.num_row_groups):
                    waiting.append(part.read_row_group(group))
                    waiting = _write_chunks(file, waiting)
        _write_chunks(file, waiting, is_last=True)
    except BaseException:
        file.abandon()
        raise
    file.close()


def _write_chunks(
    file: TableFile, waiting: list[pa.Table], *, is_last: bool = False
) -> list[pa.Table]:
    """Write as many whole chunks as there are, and at the end what is left; return the rest."""
    if not waiting or (not is_last and sum(table.num_rows for table in waiting) < CHUNK_ROWS):
        return waiting
    together = pa.concat_tables(waiting)
    whole = together.num_rows if is_last else together.num_rows // CHUNK_ROWS * CHUNK_ROWS
    for start in range(0, whole, CHUNK_ROWS):
        file.write(_settle(together.slice(start, min(CHUNK_ROWS, whole - start))))
    rest = together.slice(whole)
    return [rest] if rest.num_rows else []


def _settle(table: pa.Table) -> pa.Table:
    """Return rows whose columns of names have dictionaries of just these names, in their order."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_dictionary(field.type):
            named = column.cast(field.type.value_type).combine_chunks()
            columns.append(named.dictionary_encode().cast(field.type))
        else:
            columns.append(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
    return pa.Table.from_arrays(columns, schema=table.schema)
