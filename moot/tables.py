"""Tables: rows of results as Arrow, and as the frames of whichever library is installed."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


class Row(Protocol):
    """A row: a result with plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Return the values by the names of the columns."""


RowT = TypeVar("RowT", bound=Row)


class Rows(tuple[RowT, ...]):
    """A tuple of results that is also a table, with a column for each of their values."""

    __slots__ = ()

    def to_dict(self) -> list[dict[str, Any]]:
        """Return each row as plain values."""
        return [row.to_dict() for row in self]

    def to_arrow(self) -> "pa.Table":
        """Return the rows as a `pyarrow.Table`."""
        import pyarrow as pa  # noqa: PLC0415 - slow

        return pa.Table.from_pylist(self.to_dict())

    def to_pandas(self) -> Any:
        """Return the rows as a `pandas.DataFrame`; raises UsageError without pandas."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """Return the rows as a `polars.DataFrame`; raises UsageError without polars."""
        return to_polars(self.to_arrow())

    def _repr_html_(self) -> str:
        return make_html_rows(self.to_dict())


def to_pandas(table: "pa.Table") -> Any:
    """Return a table as a `pandas.DataFrame`.

    Raises:
        UsageError: pandas is not installed.
    """
    _require("pandas")
    return table.to_pandas()


def to_polars(table: "pa.Table") -> Any:
    """Return a table as a `polars.DataFrame`.

    Raises:
        UsageError: polars is not installed.
    """
    return _require("polars").from_arrow(table)


def _require(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{name} is not installed; install it, or take the table as to_arrow() returns it"
        ) from error


def make_html_rows(rows: Sequence[dict[str, Any]], most: int = 60) -> str:
    """Return the first rows of a table as HTML."""
    from html import escape  # noqa: PLC0415 - of notebooks alone

    if not rows:
        return "<p>no rows</p>"
    head = "".join(f"<th>{escape(str(key))}</th>" for key in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row.values()) + "</tr>"
        for row in rows[:most]
    )
    rest = f"<p>{len(rows) - most:,} rows more</p>" if len(rows) > most else ""
    return f"<table><tr>{head}</tr>{body}</table>{rest}"
