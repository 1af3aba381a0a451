"""Tables on disk: their bytes depend on their rows alone, and a disk may refuse them."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from moot.offchain.errors import CannotWrite
from moot.sim.economy import records
from moot.sim.economy.records import Tables, join_tables
from moot.sim.economy.schema import EVENTS, TABLES

CHUNK = 64
"""Rows of a chunk in these tests."""

Row = tuple[object, ...]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "CHUNK_ROWS", CHUNK)


def make_rows(count: int) -> list[Row]:
    """Return rows of `events` with names that come and go, nulls, and texts that need quotes."""
    kinds = ("entry", "exit", "fraud-missed")
    details = ("", 'a "word", and\nanother', "=1+1", "ü")
    return [
        (0, k, kinds[(k * k + k // 50) % 3], k % 7, None if k % 5 else k, details[k % 4])
        for k in range(count)
    ]


def write_rows(folder: Path, rows: Sequence[Row]) -> None:
    """Write rows to the tables of a folder."""
    with Tables(folder) as tables:
        for row in rows:
            tables.add("events", row)


def write_parts(folder: Path, parts: Sequence[Sequence[Row]]) -> list[Path]:
    """Write the rows of several parts; return their files."""
    files = []
    for number, rows in enumerate(parts):
        part = folder / str(number)
        part.mkdir(parents=True)
        write_rows(part, rows)
        files.append(part / "events.parquet")
    return files


def join(folder: Path, parts: Sequence[Sequence[Row]]) -> tuple[bytes, bytes]:
    """Return the bytes of both files of a table, joined from parts."""
    target = folder / "events.parquet"
    join_tables(write_parts(folder, parts), target, EVENTS)
    return target.read_bytes(), target.with_suffix(".csv").read_bytes()


@pytest.mark.parametrize(
    "cuts", [(), (1,), (CHUNK,), (CHUNK - 1, CHUNK + 1), (0, 0, 200, 290, 300), range(0, 300, 7)]
)
def test_bytes_do_not_depend_on_parts(cuts: Sequence[int], tmp_path: Path) -> None:
    """However rows are divided among parts, the joined table has the same bytes."""
    rows = make_rows(300)
    bounds = [0, *cuts, len(rows)]
    parts = [rows[a:b] for a, b in pairwise(bounds)]
    assert join(tmp_path / "cut", parts) == join(tmp_path / "whole", [rows])


def test_tables_are_read_back(tmp_path: Path) -> None:
    """Both files have the rows, types and names that were written, in their order."""
    rows = make_rows(300)
    join(tmp_path, [rows])
    found = pq.read_table(tmp_path / "events.parquet")
    assert found.schema.equals(EVENTS)
    assert [tuple(row.values()) for row in found.to_pylist()] == rows
    options = pc.ParseOptions(newlines_in_values=True)
    text = pc.read_csv(tmp_path / "events.csv", parse_options=options)
    assert text.column_names == EVENTS.names
    assert text["detail"].to_pylist() == [row[-1] for row in rows]


def test_tables_without_rows(tmp_path: Path) -> None:
    """A table of no rows is there, with its columns."""
    join(tmp_path, [[], []])
    assert pq.read_table(tmp_path / "events.parquet").schema.equals(EVENTS)
    assert (tmp_path / "events.csv").read_text().count("\n") == 1


def test_rows_in_memory_are_bounded(tmp_path: Path) -> None:
    """No group of rows in a file is larger than a chunk, and all but the last are as large."""
    join(tmp_path, [make_rows(100), make_rows(100)])
    for path in (tmp_path / "0" / "events.parquet", tmp_path / "events.parquet"):
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        assert set(groups[:-1]) <= {CHUNK}
        assert groups[-1] <= CHUNK


@pytest.mark.parametrize("row", [(0, 1, "entry"), (0, "x", "entry", 1, 2, ""), (0, 2**63, *"abcd")])
def test_rows_that_do_not_fit(row: Row, tmp_path: Path) -> None:
    """A row with other columns or types is an error, and no silent change."""
    with pytest.raises((ValueError, OverflowError, pa.ArrowException)), Tables(tmp_path) as tables:
        tables.add("events", row)


@pytest.mark.parametrize("count", [0, 1, 10 * CHUNK])
def test_a_disk_that_is_full(count: int, tmp_path: Path) -> None:
    """A disk that refuses is one line of error, whether early or at the end."""
    (tmp_path / "events.parquet").symlink_to("/dev/full")
    with pytest.raises(CannotWrite, match="No space left on device"):
        write_rows(tmp_path, make_rows(count))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_disk_that_is_full_when_parts_are_joined(suffix: str, tmp_path: Path) -> None:
    """The same holds of either file of a joined table."""
    files = write_parts(tmp_path, [make_rows(300)])
    (tmp_path / f"events{suffix}").symlink_to("/dev/full")
    with pytest.raises(CannotWrite, match="No space left on device"):
        join_tables(files, tmp_path / "events.parquet", EVENTS)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Tables that can't be opened are refused, and nothing is left open."""
    with pytest.raises(CannotWrite, match="cannot write"):
        Tables(tmp_path / "none")
    assert not list(tmp_path.iterdir())


def test_every_table_is_there(tmp_path: Path) -> None:
    """A run leaves a file for each table of the schema."""
    with Tables(tmp_path):
        pass
    assert {path.stem for path in tmp_path.iterdir()} == set(TABLES)
