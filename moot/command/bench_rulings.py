"""`moot bench rulings`: a ruling by what a member hands over, beside one by a run of the job."""

import json
from typing import Any

import click
from rich.table import Table

from moot.command import options


@click.command(short_help="Measure rulings by evidence, and by a run of the job.")
@click.option("--program", default="gpt2", show_default=True, help="An example.")
@click.option("--size", default="small", show_default=True, help=options.SIZE_HELP)
@click.option("--steps", type=click.IntRange(1, 64), default=4, show_default=True)
@options.as_json
def rulings(program: str, size: str, steps: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Measure what a ruling on an operator of the last step takes: seconds, and bytes fetched.

    Over HTTP on loopback, all in one process but the sandbox.
    """
    from moot.bench.rulings import measure_rulings  # noqa: PLC0415 - imports torch

    found = measure_rulings(program, size, steps)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    table = Table("by", "operator", "MB fetched", "member, s", "fetching, s", "run, s", "ruling, s")
    for it in found["rows"]:
        seconds = _format(it, "handing", "hearing")
        table.add_row("evidence", *_format_size(it), *seconds, "", *_format(it, "ruling"))
    it = found["run"]
    table.add_row("run", *_format_size(it), "", *_format(it, "fetching", "running", "ruling"))
    options.make_console().print(table)


def _format_size(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["operator"]), f"{row['bytes'] / 1e6:.2f}"


def _format(row: dict[str, Any], *names: str) -> list[str]:
    return [f"{row[f'{name}_seconds']:.2f}" for name in names]
