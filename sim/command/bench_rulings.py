"""`moot bench rulings`: a ruling by what a member hands over, beside one by a run of the job."""

import json
from typing import Any

import click
from rich.table import Table

from sim.command import options


@click.command(short_help="Measure rulings by evidence, and by a run of the job.")
@click.option("--program", default="gpt2", show_default=True, help="An example.")
@click.option("--size", default="small", show_default=True, help=options.SIZE_HELP)
@click.option("--steps", type=click.IntRange(1, 64), default=4, show_default=True)
@options.as_json
def rulings(program: str, size: str, steps: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Measure what a ruling on an operator of the last step takes: seconds, and bytes fetched.

    Over HTTP on loopback, all in one process but the sandbox.
    """
    from bench.rulings import measure_rulings  # noqa: PLC0415 - imports torch

    found = measure_rulings(program, size, steps)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    table = Table("by", "operator", "MB fetched", "member, s", "fetching, s", "run, s", "ruling, s")
    for it in found["rows"]:
        seconds = (it["handing_seconds"], it["hearing_seconds"])
        shown = [*(f"{value:.2f}" for value in seconds), "", f"{it['ruling_seconds']:.2f}"]
        table.add_row("evidence", str(it["operator"]), f"{it['bytes'] / 1e6:.2f}", *shown)
    it = found["run"]
    seconds = (it["fetching_seconds"], it["running_seconds"], it["ruling_seconds"])
    shown = [f"{value:.2f}" for value in seconds]
    table.add_row("run", str(it["operator"]), f"{it['bytes'] / 1e6:.2f}", "", *shown)
    options.make_console().print(table)
