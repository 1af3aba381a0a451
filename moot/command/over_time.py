"""A market over time, for people: a table of spans, and the line about its stationarity."""

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from moot.sim.analysis.over_time import Course

_HEADS = {"cheated": "cheated", "right": "right", "checked": "checked", "gain": "gain, ETH a job"}


def make_time_table(course: "Course") -> Table:
    """Return the table of a market's spans."""
    table = Table(
        title=f"over time, means of spans of {course.jobs // len(course.list_rows()):,} jobs"
    )
    table.add_column("from job", justify="right")
    for name in course.series:
        table.add_column(_HEADS[name], justify="right")
    table.add_column("")
    for row in course.list_rows():
        cells = [_show(name, row[name]) for name in course.series]
        table.add_row(f"{row['first_job']:,}", *cells, "burn-in" if row["is_burn_in"] else "")
    return table


def _show(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:+.5f}" if name == "gain" else f"{value:.3f}"
