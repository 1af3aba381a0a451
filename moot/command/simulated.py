"""`moot market CONFIG.toml`: runs a simulated economy once, and says what became of everybody."""

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click.core import ParameterSource
from rich.table import Table

from moot.command import options
from moot.offchain.errors import MootError, UsageError

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
    if output is not None:
        _run(context, config, settings, output, as_json=as_json)
        return
    with TemporaryDirectory(prefix="moot-") as folder:
        _run(context, config, settings, Path(folder) / "market", as_json=as_json)


def _run(
    context: click.Context, config: str, settings: Sequence[str], output: Path, *, as_json: bool
) -> None:
    from moot.offchain.arithmetic.table import find_arithmetic  # noqa: PLC0415 - imports numpy
    from moot.offchain.backends.table import describe_backend  # noqa: PLC0415 - likewise
    from moot.sim.economy.simulate import simulate  # noqa: PLC0415 - imports torch
    from moot.sim.experiments.engines import Here  # noqa: PLC0415 - imports pyarrow
    from moot.sim.experiments.parts import Ended  # noqa: PLC0415 - likewise
    from moot.sim.experiments.plan import make_plan  # noqa: PLC0415 - likewise
    from moot.sim.experiments.presets import open_config  # noqa: PLC0415 - likewise
    from moot.sim.experiments.sweep import run_sweep, summarise_results  # noqa: PLC0415 - likewise

    began = time.monotonic()
    changed = _replace_keys(context, open_config(config), settings)
    program = changed.program
    if changed.fidelity != "modelled":
        found = describe_backend(program.backend, find_arithmetic(program.arithmetic))
        options.announce(found)
    failures: list[Ended] = []
    with options.progress(quiet=as_json) as progress:
        swept = run_sweep(make_plan(changed), output, Here(), simulate, progress, failures.append)
    counts = summarise_results(output)
    if counts["failed"]:
        raise MootError(f"the run failed: {failures[0].error if failures else 'see runs.csv'}")
    if as_json:
        measured = {
            "seconds": round(time.monotonic() - began, 3),
            "peak_mib": round(swept.peak_mib, 1),
        }
        del counts["runs"], counts["failed"]
        click.echo(json.dumps(_describe(output) | counts | measured, indent=2))
    else:
        _show(output)


def _replace_keys(context: click.Context, config: Any, settings: Sequence[str]) -> Any:
    """Return a configuration with the keys replaced that options say."""
    from moot.sim.economy.config import replace_keys  # noqa: PLC0415 - imports msgspec
    from moot.sim.experiments.values import parse_varied  # noqa: PLC0415 - imports pyarrow

    values = {}
    for varied in parse_varied(tuple(settings)):
        if len(varied.values) > 1:
            raise UsageError(f"--set {varied.key} has several values; `moot sweep` runs them all")
        values[varied.key] = varied.values[0]
    for key in ("jobs", "seed"):
        if context.get_parameter_source(key) is ParameterSource.COMMANDLINE:
            values[key] = context.params[key]
    return replace_keys(config, values)


def _read(output: Path, table: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow

    rows: list[dict[str, Any]] = pq.read_table(output / f"{table}.parquet").to_pylist()
    return rows


def _sum_strategies(output: Path) -> list[dict[str, Any]]:
    """Return what became of the agents of each role and strategy together."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for agent in _read(output, "agents"):
        key = (agent["role"], agent["strategy"])
        row = sums.setdefault(key, {"role": key[0], "strategy": key[1], "agents": 0, "gone": 0})
        row["agents"] += 1
        row["gone"] += agent["left"] is not None
        for name in ("jobs", "cheated", "slashed", "forfeits", "work_gwei", "profit_gwei"):
            row[name] = row.get(name, 0) + agent[name]
    return list(sums.values())


def _sum_gas(output: Path) -> dict[str, dict[str, int]]:
    """Return the gas of each stage of the games that were played, too, modelled and played."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: {"modelled": 0, "played": 0})
    for game in _read(output, "games"):
        if game["played_outcome"] is not None:
            for name in game:
                stage = name.removeprefix("played_gas_")
                if stage != name:
                    sums[stage]["modelled"] += game[f"gas_{stage}"]
                    sums[stage]["played"] += game[name]
    return dict(sums)


def _describe(output: Path) -> dict[str, Any]:
    """Return all that `--json` tells before the counts."""
    (run,) = _read(output, "runs")
    kept = {name: value for name, value in run.items() if name not in {"run", "rep", "error"}}
    told = {"run": kept, "strategies": _sum_strategies(output)}
    gas = _sum_gas(output)
    return told | ({"gas": gas} if gas else {})


def _show(output: Path) -> None:
    """Print what became of a market, for people."""
    console = options.make_console()
    (run,) = _read(output, "runs")
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
    for row in _sum_strategies(output):
        if row["role"] == "client":
            continue
        counts = [f"{row[name]:,}" for name in _COUNTS]
        earned_eth, jobs = row["profit_gwei"] / _GWEI, row["jobs"]
        each = f"{1000 * earned_eth / jobs:+,.1f}" if jobs else "-"
        table.add_row(row["role"], row["strategy"], *counts, f"{earned_eth:+,.3f}", each)
    console.print(table)
    gas = _sum_gas(output)
    if gas:
        parts = [
            f"{stage} {it['modelled'] / it['played'] - 1:+.2%}"
            for stage, it in gas.items()
            if it["played"]
        ]
        console.print(f"gas of the table against the chain's: {', '.join(parts)}")
