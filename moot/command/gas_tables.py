"""The tables of `moot gas`, for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from moot.sim.gas.opcodes import LINES
from moot.sim.gas.results import ABOUT
from moot.sim.gas.snapshot import Change, Line

_PARTS = ("gas", "calldata", "execution")
_SPREAD = ("minimum", "median", "maximum")


def make_calls(entry: Mapping[str, Any]) -> Table:
    """Return the table of a scenario's calls; medians stand for calldata and execution."""
    table = _make_table(
        f"{entry['scenario']}: {entry['about']}",
        ("phase", "call"),
        ("calls", "min", "median", "max", "calldata", "execution", "total"),
    )
    for row in entry["calls"]:
        gas, calldata, execution = (row[part] for part in _PARTS)
        amounts = [gas[key] for key in _SPREAD]
        amounts += [calldata["median"], execution["median"], gas["total"]]
        table.add_row(row["stage"], row["call"], str(row["moves"]), *map(_show, amounts))
    for phase, total in entry["by_phase"].items():
        own = [row for row in entry["calls"] if row["stage"] == phase]
        if own:
            table.add_section()
            parts = [sum(row[part]["total"] for row in own) for part in _PARTS[1:]]
            moves = sum(row["moves"] for row in own)
            table.add_row(f"all {phase}", "", str(moves), *[""] * 3, *map(_show, (*parts, total)))
    table.add_section()
    table.add_row("all", "", *[""] * 6, _show(entry["total_gas"]))
    table.caption = f"the client has opened the job for {_show(entry['open_job_gas'])}"
    return table


def make_opcodes(entry: Mapping[str, Any]) -> Iterator[Table]:
    """Yield a table for each phase of a scenario: its calls by class of opcode, and their sums."""
    rows = entry["by_opcode"]
    for phase in dict.fromkeys(row["stage"] for row in rows):
        own = [row for row in rows if row["stage"] == phase]
        title = f"{entry['scenario']}, {phase}: gas by class of opcode"
        table = _make_table(title, ("class",), [row["call"] for row in own])
        for line in LINES:
            amounts = [row["parts"][line] for row in own]
            if any(amounts):
                table.add_row(line, *map(_show, amounts))
        table.add_section()
        table.add_row("all", *(_show(sum(row["parts"].values())) for row in own))
        yield table


def make_summary(objects: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of scenarios."""
    columns = ("calls", "total", "rounds", "halvings", "a halving", "leaf")
    table = _make_table("scenarios", ("scenario",), columns)
    for entry in objects:
        calls = sum(row["moves"] for row in entry["calls"])
        keys = ("total_gas", "rounds_gas", "halvings", "gas_per_halving_rounds", "leaf_gas")
        amounts = (calls, *(entry[key] for key in keys))
        table.add_row(entry["scenario"], *map(_show, amounts))
    return table


def make_functions(functions: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the table of scalar functions."""
    return _make_spreads("scalar functions by themselves", "function", functions)


def make_demands(scenario: str, calls: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the table of calls on a contract beside the referee."""
    of_demands = {"promises", "premiums"}
    title = f"{scenario}, and demands upon them" if scenario in of_demands else ABOUT[scenario]
    return _make_spreads(title, "call", calls)


def _make_spreads(title: str, head: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    keys = ("count", "min", "median", "max", "mean")
    table = _make_table(title, (head,), keys)
    for name, row in rows.items():
        table.add_row(name, *(_show(row[key]) for key in keys))
    return table


def make_changes(changes: Sequence[Change]) -> Table:
    """Return the table of what has changed."""
    columns = ("calls", "before", "after", "change", "%")
    table = _make_table("median gas", ("scenario", "call"), columns)
    for change in changes:
        line = change.after or change.before
        assert line is not None
        table.add_row(*line.key, str(line.count), *_show_change(change.before, change.after))
    return table


def _show_change(before: Line | None, after: Line | None) -> tuple[str, ...]:
    if before is None or after is None:
        known = before or after
        assert known is not None
        amount = _show(known.median)
        return ("", amount, "new", "") if before is None else (amount, "", "gone", "")
    difference = after.median - before.median
    share = f"{100 * difference / before.median:+.2f}"
    return (_show(before.median), _show(after.median), f"{difference:+,}", share)


def _make_table(title: str, names: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title)
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _show(amount: float | None) -> str:
    """Return an amount with separators, without decimals; a dash if there is none."""
    return "-" if amount is None else f"{amount:,.0f}"
