"""The files of traces: CSV or Parquet, with a column `block` and columns of what is in the blocks.

Two come with us, by name. Both are generated (`docs/tools/traces.py`), and recorded nowhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from moot.offchain.errors import UsageError

FOLDER = Path(__file__).parent

MOST_ROWS = 10**7
"""Rows that a trace may have: three years of blocks."""

MOST_VALUE = 1e6
"""The greatest value of a column, as of the keys of a market that are amounts."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace that was read.

    Attributes:
        blocks: of each row, from 0 on; never less than that of the row before.
        columns: the values of each row, by the name of their column; above 0.
    """

    blocks: npt.NDArray[np.int64]
    columns: Mapping[str, Floats]


def list_traces() -> list[str]:
    """Return the names of the traces that come with us."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def find_trace(name: str) -> Path:
    """Return the file of a trace; raises UsageError if there is none."""
    path = Path(name)
    if path.suffix in (".csv", ".parquet"):
        return path
    if name not in list_traces():
        raise UsageError.unknown("trace", name, [*list_traces(), "FILE.csv", "FILE.parquet"])
    return FOLDER / f"{name}.csv"


def read_trace(
    name: str, needed: Sequence[str], allowed: Sequence[str] = (), *, is_dense: bool = False
) -> Trace:
    """Return a trace.

    Args:
        name: of one that comes with us, or a CSV or Parquet file.
        needed: the columns that it must have besides `block`.
        allowed: those that it may have.
        is_dense: whether it has to have a row for each block from 0 on.

    Raises:
        UsageError: there is no such trace; a column is missing, not known or no numbers; a value
            is not above 0 and finite; rows are out of order, or have gaps where none may be.
    """
    path = find_trace(name)
    try:
        stamp = path.stat().st_mtime_ns
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return _read(path, stamp, tuple(needed), tuple(allowed), is_dense=is_dense)


@lru_cache(maxsize=8)
def _read(
    path: Path, stamp: int, needed: tuple[str, ...], allowed: tuple[str, ...], *, is_dense: bool
) -> Trace:
    del stamp
    table = _read_table(path)
    known = ("block", *needed, *allowed)
    for column in table.column_names:
        if column not in known:
            raise UsageError.unknown(f"column in {path}", column, known)
    for column in ("block", *needed):
        if column not in table.column_names:
            raise UsageError(f"{path} has no column `{column}`; it needs {', '.join(known)}")
    if not 0 < table.num_rows <= MOST_ROWS:
        raise UsageError(f"{path} has {table.num_rows:,} rows; give it 1 to {MOST_ROWS:,}")
    columns = {name: _take(path, table, name) for name in table.column_names}
    blocks = columns.pop("block")
    _check_blocks(path, blocks, is_dense=is_dense)
    for name, values in columns.items():
        _refuse_first(path, name, values, (values <= 0) | (values > MOST_VALUE), "above 0 to 10^6")
    return Trace(blocks.astype(np.int64), columns)


def _read_table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path) if path.suffix == ".parquet" else pc.read_csv(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except pa.ArrowException as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path} is no table: {line}") from error


def _take(path: Path, table: pa.Table, name: str) -> Floats:
    """Return the numbers of a column."""
    column = table[name]
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not is_number or column.null_count:
        raise UsageError(f"{path}: column `{name}` is not made of numbers, one in each row")
    values: Floats = column.to_numpy().astype(np.float64)
    _refuse_first(path, name, values, ~np.isfinite(values), "a finite number")
    return values


def _check_blocks(path: Path, blocks: Floats, *, is_dense: bool) -> None:
    wrong = (blocks < 0) | (blocks != np.floor(blocks)) | (blocks > MOST_ROWS * 100)
    _refuse_first(path, "block", blocks, wrong, "a whole number from 0 to 10^9")
    steps = np.diff(blocks)
    if (steps < 0).any():
        row = int(np.argmax(steps < 0)) + 1
        raise UsageError(
            f"{path}: row {row + 1} is of block {blocks[row]:g}, after one of {blocks[row - 1]:g}; "
            "sort the rows by `block`"
        )
    if is_dense and (blocks[0] != 0 or (steps != 1).any()):
        row = int(np.argmax(steps != 1)) + 1 if blocks[0] == 0 else 0
        raise UsageError(
            f"{path}: row {row + 1} is of block {blocks[row]:g}, and not of {row}; this trace "
            "needs a row for each block, from 0 on"
        )


def _refuse_first(
    path: Path, name: str, values: Floats, wrong: npt.NDArray[np.bool_], wanted: str
) -> None:
    """Refuse the first value that is wrong, if one is."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UsageError(f"{path}: row {row + 1} has {name} = {values[row]:g}; it must be {wanted}")
