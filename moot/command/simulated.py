"""`moot market CONFIG.toml`: runs a simulated economy once, and says what became of everybody."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.table import Table

from moot.command import options
from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    from moot.markets import Results

_OPTIONS = frozenset({"context", "config", "settings", "jobs", "seed", "output", "as_json"})
_GWEI = 10**9
_COUNTS = ("agents", "gone", "jobs", "cheated", "slashed", "forfeits")
"""What is shown of a strategy's agents together."""


def simulate_market(
    context: click.Context,
    config: str,
    settings: Sequence[str],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Run a configured market once: a sweep that varies nothing.

    Args:
        context: tells which options were given.
        config: a file or a preset.
        settings: `KEY=VALUE`, each with one value.
        output: the folder for the tables; None leaves none.
        as_json: whether to print one JSON object.

    Raises:
        UsageError: something that was asked for is impossible.
        MootError: the run has failed.
    """
    for name in context.params:
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _OPTIONS:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is none of the options of a CONFIG; write it in {config}")
    from moot.markets import simulate  # noqa: PLC0415 - imports pyarrow

    values = _list_values(context, settings)
    with options.progress(quiet=as_json) as progress:
        results = simulate(config, set=values, output=output, progress=progress)
    if as_json:
        measured = {"seconds": round(results.seconds, 3), "peak_mib": round(results.peak_mib, 1)}
        counts = {k: it for k, it in results.counts.items() if k not in {"runs", "failed"}}
        click.echo(json.dumps(_describe(results) | counts | measured, indent=2))
    else:
        _show(results)


def _list_values(context: click.Context, settings: Sequence[str]) -> dict[str, Any]:
    """Return the values of the keys that options say."""
    from moot.sim.experiments.values import parse_varied  # noqa: PLC0415 - imports pyarrow

    values: dict[str, Any] = {}
    for varied in parse_varied(tuple(settings)):
        if len(varied.values) > 1:
            raise UsageError(f"--set {varied.key} has several values; `moot sweep` runs them all")
        values[varied.key] = varied.values[0]
    for key in ("jobs", "seed"):
        if context.get_parameter_source(key) is ParameterSource.COMMANDLINE:
            values[key] = context.params[key]
    return values


def _read(results: "Results", table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results.to_arrow(table).to_pylist()
    return rows


def _sum_strategies(results: "Results") -> list[dict[str, Any]]:
    """Return what became of the agents of each role and strategy together."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for agent in _read(results, "agents"):
        key = (agent["role"], agent["strategy"])
        row = sums.setdefault(key, {"role": key[0], "strategy": key[1], "agents": 0, "gone": 0})
        row["agents"] += 1
        row["gone"] += agent["left"] is not None
        for name in ("jobs", "cheated", "slashed", "forfeits", "work_gwei", "profit_gwei"):
            row[name] = row.get(name, 0) + agent[name]
    return list(sums.values())


def _sum_gas(results: "Results") -> dict[str, dict[str, int]]:
    """Return the gas of each stage of the games that were played, too, modelled and played."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: {"modelled": 0, "played": 0})
    for game in _read(results, "games"):
        if game["played_outcome"] is not None:
            for name in game:
                stage = name.removeprefix("played_gas_")
                if stage != name:
                    sums[stage]["modelled"] += game[f"gas_{stage}"]
                    sums[stage]["played"] += game[name]
    return dict(sums)


def _describe(results: "Results") -> dict[str, Any]:
    """Return all that `--json` tells before the counts."""
    (run,) = _read(results, "runs")
    kept = {name: value for name, value in run.items() if name not in {"run", "rep", "error"}}
    told = {"run": kept, "strategies": _sum_strategies(results)}
    gas = _sum_gas(results)
    return told | ({"gas": gas} if gas else {})


def _show(results: "Results") -> None:
    """Print what became of a market, for people."""
    console = options.make_console()
    (run,) = _read(results, "runs")
    console.print(
        f"[bold]{run['jobs']:,} jobs[/] in {run['blocks']:,} blocks: {run['right']:,} answers "
        f"right, {run['wrong']:,} wrong, {run['void']:,} void, {run['unserved']:,} jobs unserved",
        markup=True,
    )
    console.print(
        f"{run['cheated']:,} jobs were cheated in, {run['caught']:,} of the cheats lost a bond; "
        f"{run['audited']:,} jobs were audited, {run['disputed']:,} disputed"
        + (f", {run['played']:,} of these played on a chain" if run["played"] else "")
    )
    console.print(
        f"clients: {run['client_gwei'] / _GWEI:+,.3f} ETH, what right answers are worth less what "
        "was paid and wrong answers cost"
    )
    table = Table(title="by strategy", box=None, pad_edge=False, title_justify="left")
    for header in ("role", "strategy"):
        table.add_column(header, no_wrap=True)
    for header in (*_COUNTS, "ETH earned", "mETH a job"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in _sum_strategies(results):
        if row["role"] == "client":
            continue
        counts = [f"{row[name]:,}" for name in _COUNTS]
        earned_eth, jobs = row["profit_gwei"] / _GWEI, row["jobs"]
        each = f"{1000 * earned_eth / jobs:+,.1f}" if jobs else "-"
        table.add_row(row["role"], row["strategy"], *counts, f"{earned_eth:+,.3f}", each)
    console.print(table)
    gas = _sum_gas(results)
    if gas:
        parts = [
            f"{stage} {it['modelled'] / it['played'] - 1:+.2%}"
            for stage, it in gas.items()
            if it["played"]
        ]
        console.print(f"gas of the table against the chain's: {', '.join(parts)}")
