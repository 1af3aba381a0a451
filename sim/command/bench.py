"""`moot bench`: times Moot's kernels and stock torch in turns, in one process."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from rich.table import Table

from offchain.errors import UsageError
from offchain.execution.kernels.threads import MAX_THREADS
from sim.command import options
from sim.command.groups import Group

if TYPE_CHECKING:
    from bench.rows import Row

_GROUPS = ("matmul", "convolution", "other", "indices")
_VECTOR_BITS = "MOOT_VECTOR_BITS"


def _parse_threads(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(1 <= count <= MAX_THREADS for count in counts):
        raise UsageError(
            f"--threads {text} is not a list of numbers from 1 to {MAX_THREADS}, like 1,2"
        )
    return counts


def _set_vector_bits(_: click.Context, __: click.Parameter, bits: str | None) -> None:
    """Choose the kernels' vectors, which is possible before they are imported only."""
    if bits is not None:
        os.environ[_VECTOR_BITS] = bits


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all benchmarks."""
    for option in (
        options.as_json,
        click.option("--tiny", is_flag=True, help="Sizes that say nothing, for a trial."),
        click.option(
            "--vector-bits",
            type=click.Choice(["128", "256", "512"]),
            callback=_set_vector_bits,
            expose_value=False,
            help="Vectors of our kernels  [default: the machine's].",
        ),
        click.option(
            "--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Turns."
        ),
        click.option(
            "--threads",
            default="1,2",
            show_default=True,
            callback=_parse_threads,
            help=f"Numbers of threads of each side, at most {MAX_THREADS}.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=Group, short_help="Measure ours beside stock torch.")
def bench() -> None:
    """Measure ours beside stock torch: ratios above 1 say that ours is faster."""


@bench.command()
@click.option("--only", multiple=True, help=f"A group: {', '.join(_GROUPS[:-1])} or {_GROUPS[-1]}.")
@click.option("--model", "models", multiple=True, help="For matmul: gpt2, llama, bert or vit.")
@_shared
def ops(
    only: tuple[str, ...],
    models: tuple[str, ...],
    threads: list[int],
    repeats: int,
    tiny: bool,  # noqa: FBT001 - click passes it
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Measure operators: matrix products, convolutions and others."""
    from bench import products, suite  # noqa: PLC0415 - imports torch

    groups = _choose("group", only, _GROUPS)
    chosen = _choose("model", models, products.MODELS)
    rows = suite.measure_operators(groups, chosen, threads, repeats, is_tiny=tiny)
    _show_rows(rows, as_json=as_json)


@bench.command()
@click.option("--model", "models", multiple=True, help="gpt2, llama, resnet or bert.")
@_shared
def step(
    models: tuple[str, ...],
    threads: list[int],
    repeats: int,
    tiny: bool,  # noqa: FBT001 - click passes it
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Measure whole training steps.

    Ours commit to the state every ten steps.
    """
    from bench import models as known  # noqa: PLC0415 - imports torch
    from bench.steps import measure_steps  # noqa: PLC0415 - likewise

    chosen = _choose("model", models, known.MODELS)
    _show_rows(measure_steps(chosen, threads, repeats, is_tiny=tiny), as_json=as_json)


@bench.command("hash")
@_shared
def hash_(
    threads: list[int],
    repeats: int,
    tiny: bool,  # noqa: FBT001 - click passes it
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Measure commitments: chunks and their tree."""
    from bench.hashing import measure_hashing  # noqa: PLC0415 - imports torch

    rows = list(measure_hashing(threads, repeats, is_tiny=tiny))
    if as_json:
        click.echo(json.dumps({"rows": rows}, indent=2))
        return
    table = Table("name", "threads", "GB/s")
    for row in rows:
        table.add_row(row["name"], str(row["threads"]), f"{row['gb_per_s']:.2f}")
    options.make_console().print(table)


def _choose(subject: str, asked: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Return the names that were asked for, or else all."""
    for name in asked:
        if name not in known:
            raise UsageError.unknown(subject, name, known)
    return asked or known


def _show_rows(rows: "Iterator[Row]", *, as_json: bool) -> None:
    """Measure, and print what was found."""
    from bench.rows import summarise  # noqa: PLC0415 - imports torch

    found = []
    with options.progress(quiet=as_json) as report:
        for row in rows:
            found.append(row)
            report(row.group, sum(other.group == row.group for other in found), 0)
    summary = summarise(found)
    if as_json:
        click.echo(json.dumps(summary, indent=2))
    else:
        _print_tables(summary)


def _print_tables(summary: dict[str, Any]) -> None:
    """Print a table of each group, with its geometric mean."""
    console = options.make_console()
    for group, of_group in summary["groups"].items():
        rows = [row for row in summary["rows"] if row["group"] == group]
        columns = [column for column in _COLUMNS if column.key in rows[0]]
        table = Table(*(column.title for column in columns), title=group)
        for row in rows:
            table.add_row(*(column.show(row[column.key]) for column in columns))
        console.print(table)
        console.print(
            ", ".join(f"{key.replace('_', ' ')} {value:.3f}" for key, value in of_group.items())
        )


class _Column(NamedTuple):
    key: str
    title: str
    show: Callable[[Any], str] = str


def _in_ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def _as_ratio(ratio: float) -> str:
    return f"{ratio:.2f}"


_COLUMNS = (
    _Column("name", "name"),
    _Column("shape", "shape"),
    _Column("threads", "threads"),
    _Column("ours_s", "ours, ms", _in_ms),
    _Column("stock_s", "stock, ms", _in_ms),
    _Column("ratio", "stock/ours", _as_ratio),
    _Column("best", "best library"),
    _Column("best_ratio", "best/ours", _as_ratio),
    _Column("commitment_s", "commit, ms", _in_ms),
    _Column("memory_ratio", "memory, ours/stock", _as_ratio),
)
