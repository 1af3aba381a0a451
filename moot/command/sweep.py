"""`moot sweep`: runs a simulated market for every combination of values, again and again."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from moot.command import options
from moot.offchain.errors import UsageError
from moot.sim.experiments.presets import list_presets

if TYPE_CHECKING:
    from moot.markets import Results
    from moot.sim.experiments.engines import Engine
    from moot.sim.experiments.parts import Ended
    from moot.sim.experiments.plan import Plan

SOME_FAILED = 1
ENGINES = ("processes", "ray")
_GWEI = 10**9

_EPILOG = """\b
Values of a key (several --set are a grid):
  --set bond.eth=0.2:2:0.2              0.2 to 2 in steps of 0.2, both included
  --set audit.rate=0,0.05,0.1           these three
  --set bond.name=constant,proportional
  --set providers.lazy.count=0:8:2      how many agents have that strategy

\b
Examples:
  moot sweep baseline --set bond.eth=0.2:2:0.2 --reps 5 -o bonds
  moot sweep my.toml --set bond.eth=0.5,1 --set audit.rate=0:0.2:0.05 -j 8 -o grid
  moot sweep sybil-storm --engine ray --address 10.0.0.1:6379 -o storm
  moot report bonds
"""


def sweeping(command: options.Command) -> options.Command:
    """Add the options that say what plays runs."""
    for option in (
        click.option(
            "--address",
            help="With --engine ray: HOST:PORT of a cluster of which this machine is part, or "
            "`auto`.  [default: Ray on this machine alone]",
        ),
        click.option(
            "--engine",
            type=click.Choice(ENGINES),
            default=ENGINES[0],
            show_default=True,
            help="What plays the runs.",
        ),
        click.option(
            "-j",
            "--processes",
            type=click.IntRange(1, 1024),
            help="Runs that are played at once.  [default: one for each core]",
        ),
    ):
        command = option(command)
    return command


@click.command(
    short_help="Run a simulated market for many settings.",
    epilog=f"{_EPILOG}\n{options.list_choices('Presets:', list_presets())}",
)
@click.argument("config", metavar="CONFIG.toml|PRESET")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUES",
    multiple=True,
    help="Vary a key of the configuration; see below.",
)
@click.option(
    "--reps", default=1, show_default=True, help="Repetitions of each setting, with other seeds."
)
@sweeping
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder for the tables; new, or that of a sweep that was interrupted.",
)
@options.as_json
def sweep(
    config: str,
    settings: tuple[str, ...],
    reps: int,
    processes: int | None,
    engine: str,
    address: str | None,
    output: Path,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> int:
    """Run a simulated market for every combination of values, each with the same seeds.

    Every setting has the same random numbers (seed, repetition), so that settings differ by what
    was set alone. The tables in the output folder (Parquet and CSV) are the same, byte for byte,
    however many processes play, and on Ray. A sweep that was interrupted goes on where it was when
    the same command is given again. A run that fails is a row with its error, and the command then
    exits with 1.
    """
    from moot.markets import sweep as run_sweep  # noqa: PLC0415 - imports pyarrow
    from moot.sim.experiments.values import parse_varied  # noqa: PLC0415 - likewise

    chosen = choose_engine(engine, processes, address)
    varied = {each.key: each.values for each in parse_varied(settings)}
    with options.progress(quiet=as_json) as progress:
        results = run_sweep(
            config,
            varied,
            reps=reps,
            output=output,
            engine=chosen,
            progress=progress,
            on_failure=tell_failure,
        )
    if as_json:
        measured = {"seconds": round(results.seconds, 3), "peak_mib": round(results.peak_mib, 1)}
        summary = order_summary({**results.counts, **measured})
        click.echo(json.dumps(summary | {"warnings": results.warnings}, indent=2))
    else:
        show(results)
    options.warn(results.warnings)
    return SOME_FAILED if results.counts["failed"] else 0


def choose_engine(name: str, processes: int | None, address: str | None) -> "Engine":
    """Return the engine that is asked for."""
    from moot.sim.experiments.engines import Here, Processes  # noqa: PLC0415 - imports pyarrow
    from moot.sim.experiments.ray_engine import Ray  # noqa: PLC0415 - likewise

    count = processes or len(os.sched_getaffinity(0))
    if name == "ray":
        return Ray(count, address)
    if address is not None:
        raise UsageError("--address is that of a Ray cluster; add --engine ray")
    return Processes(count) if count > 1 else Here()


def tell_failure(plan: "Plan", ended: "Ended") -> None:
    """Print a line about a run that has failed, on stderr."""
    setting = plan.settings[ended.number // plan.reps][0]
    where = [f"{key}={value}" for key, value in zip(plan.keys, setting, strict=True)]
    where.append(f"repetition {ended.number % plan.reps}")
    click.echo(f"moot: run {ended.number} ({', '.join(where)}) failed: {ended.error}", err=True)


SUMMARY = (
    "runs",
    "failed",
    "jobs",
    "providers",
    "seconds",
    "peak_mib",
    "disputes",
    "played",
    "wrong_verdicts",
    "disagreements",
    "invariant_violations",
)
"""What `--json` tells of all runs together, in this order."""


def order_summary(counts: dict[str, Any]) -> dict[str, Any]:
    """Return counts in the order of `SUMMARY`."""
    return {name: counts[name] for name in SUMMARY}


def show(results: "Results") -> None:
    """Print a table with a line for each setting, and what has become of the runs."""
    plan, counts = results.plan, results.counts
    runs: list[dict[str, Any]] = results.to_arrow("runs").to_pylist()
    table = Table(title="means over the repetitions that are done")
    for key in plan.keys or ("setting",):
        table.add_column(key)
    for heading in (
        "runs",
        "audited",
        "asked",
        "wrong",
        "caught",
        "honest ETH",
        "cheats ETH",
        "clients ETH",
    ):
        table.add_column(heading, justify="right")
    for index, (setting, _) in enumerate(plan.settings):
        rows = runs[index * plan.reps : (index + 1) * plan.reps]
        done = [row for row in rows if row["status"] == "done"]
        names = [str(value) for value in setting] or ["as it is"]
        table.add_row(*names, f"{len(done)} of {len(rows)}", *_describe(done))
    console = options.make_console()
    console.print(table)
    verdicts = [course.judge() for course in results.follow() if course is not None]
    if restless := [verdict for verdict in verdicts if verdict.trends]:
        console.print(f"{len(restless)} of {len(verdicts)} settings are {restless[0].describe()}")
    console.print(
        f"{counts['runs']} runs, {counts['failed']} of them failed; {results.played} were played "
        f"now. The tables are in {results.folder}; `moot report {results.folder}` draws them."
    )


def _describe(done: Sequence[dict[str, Any]]) -> list[str]:
    """Return cells: rates of audits, shares of wrong answers and caught cheats, profits a run."""
    if not done:
        return ["-"] * 7
    jobs, cheated = (sum(row[name] for row in done) for name in ("jobs", "cheated"))
    wrong, caught = (sum(row[name] for row in done) for name in ("wrong", "caught"))
    profits = [
        fmean(row[name] for row in done) / _GWEI
        for name in ("honest_gwei", "cheat_gwei", "client_gwei")
    ]
    audits = [fmean(row[f"audit_rate_{name}"] for row in done) for name in ("achieved", "asked")]
    shares = [f"{rate:.1%}" for rate in audits]
    shares += [f"{wrong / jobs:.1%}", f"{caught / cheated:.1%}" if cheated else "-"]
    return [*shares, *(f"{profit:+,.3f}" for profit in profits)]
