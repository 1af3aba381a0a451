"""`moot bench`: times Moot's kernels and stock torch in turns, in one process."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from rich.table import Table

from moot.command import options
from moot.command.bench_parties import parties
from moot.command.bench_rulings import rulings
from moot.command.groups import Group
from moot.offchain.errors import UsageError
from moot.offchain.native.threads import MAX_THREADS

if TYPE_CHECKING:
    from moot.bench.rows import Row

_GROUPS = (
    *("matmul", "bfloat16", "int8", "convolution", "other", "pointwise", "indices", "layers"),
    *("generation", "serving", "receipts"),
)
_BITS_DIFFER = 3
_TENSOR = "tensor"


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


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all benchmarks."""
    for option in (
        options.as_json,
        click.option("--tiny", is_flag=True, help="Sizes that say nothing, for a trial."),
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


bench.add_command(parties)
bench.add_command(rulings)


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
    """Measure operators: products, layers, maps and others."""
    from moot.bench import products, suite  # noqa: PLC0415 - imports torch

    groups = _choose("group", only, _GROUPS)
    chosen = _choose("model", models, products.MODELS)
    rows = suite.measure_operators(groups, chosen, threads, repeats, is_tiny=tiny)
    _show_rows(rows, as_json=as_json)


@bench.command()
@click.option("--model", "models", multiple=True, help="gpt2, llama, resnet or bert.")
@click.option(
    "--best",
    "with_best",
    is_flag=True,
    help="Measure stock torch at its best too: a fused optimizer, channels last, torch.compile; "
    "all with an allocator that keeps its memory.",
)
@options.precision
@options.backend
@_shared
def step(
    models: tuple[str, ...],
    precision: str,
    backend: str,
    with_best: bool,  # noqa: FBT001 - click passes it
    threads: list[int],
    repeats: int,
    tiny: bool,  # noqa: FBT001 - click passes it
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Measure whole training steps.

    Ours commit to the state every ten steps.
    """
    from moot.bench import models as known  # noqa: PLC0415 - imports torch
    from moot.bench.steps import measure_steps  # noqa: PLC0415 - likewise
    from moot.offchain.arithmetic.ordered import ORDERED  # noqa: PLC0415 - likewise
    from moot.offchain.backends.table import describe_backend  # noqa: PLC0415 - likewise

    chosen = _choose("model", models, known.MODELS)
    options.announce(describe_backend(backend, ORDERED))
    with options.progress(quiet=as_json) as report:
        rows = measure_steps(
            chosen,
            threads,
            repeats,
            report,
            is_tiny=tiny,
            with_best=with_best,
            precision=precision,
            backend=backend,
        )
        found = list(rows)
    _print_rows(found, as_json=as_json)


@bench.command()
@click.option(
    "--backend",
    default="cuda",
    show_default=True,
    help="cuda, or cuda-emulator, which needs no device and says nothing about speed.",
)
@click.option("--program", "programs", multiple=True, help="mlp, gpt2, llama, resnet or bert.")
@click.option(
    "--only",
    multiple=True,
    help="products, hashes, states or steps; or tensor, which is left out unless it is asked for.",
)
@click.option(
    "--steps", type=click.IntRange(min=1), default=20, show_default=True, help="Steps of training."
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Turns of products."
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0),
    default=8,
    show_default=True,
    help="Time after which nothing more begins that --only tensor measures; with --write, what was "
    "left out then is measured the next time.",
)
@click.option("--tiny", is_flag=True, help="Sizes that say nothing, for a trial.")
@click.option("--write", is_flag=True, help="Write devices.json and devices.md of the docs.")
@options.as_json
def device(
    backend: str,
    programs: tuple[str, ...],
    only: tuple[str, ...],
    steps: int,
    repeats: int,
    minutes: float,
    tiny: bool,  # noqa: FBT001 - click passes it
    write: bool,  # noqa: FBT001 - likewise
    as_json: bool,  # noqa: FBT001 - likewise
) -> int:
    """Compare a device with the processor: bits and speed.

    Trains programs on both, state by state, and times products in both arithmetics, whole steps and
    hashes, beside stock torch where it has the device. Steps are run in three ways: as graphs of
    launches, with regions alone, and operator by operator, and have to come to one state. With
    --only tensor: the device's tensor cores beside the definition, and their products and steps
    beside torch's in bfloat16. Exits with 3 if a bit differs, or a part of that fails.
    """
    from moot.bench import device as measured  # noqa: PLC0415 - imports torch
    from moot.bench import tensor_cores  # noqa: PLC0415 - likewise

    chosen = _choose("program", programs, measured.PROGRAMS)
    parts = _choose("part", only, (*measured.PARTS, _TENSOR)) if only else measured.PARTS
    found = measured.measure_device(backend, chosen, steps, repeats, is_tiny=tiny, parts=parts)
    if _TENSOR in parts:
        named = measured.describe_device(backend)
        found[_TENSOR] = tensor_cores.measure_tensor_cores(
            backend,
            60 * minutes,
            repeats,
            is_tiny=tiny,
            known=measured.find_results(named["device"]).get(_TENSOR) if write else None,
            tell=lambda line: click.echo(line, err=True),
            keep=lambda row: measured.write_results(named | {_TENSOR: row}) if write else None,
        )
    if write:
        measured.write_results(found)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _show_device(found)
    is_equal = found.get("hashes", {"equal": True})["equal"]
    is_equal &= all(row["equal"] for row in found.get("products", []))
    is_equal &= all(row["equal"] for row in found.get("steps", []))
    is_equal &= all(row["equal"] == row["steps"] for row in found.get("states", []))
    is_equal &= tensor_cores.is_right(found.get(_TENSOR, {}))
    return 0 if is_equal else _BITS_DIFFER


def _show_device(found: dict[str, Any]) -> None:
    """Print what was measured on a device."""
    console = options.make_console()
    console.print(f"{found['device']}, compute capability {found['capability']}")
    products = Table("product", "arithmetic", "equal bits", "GFLOP/s", "stock/ours")
    for row in found.get("products", []):
        cells = row["shape"], row["arithmetic"], str(row["equal"])
        products.add_row(*cells, f"{row['gflops']:.1f}", _show_ratio(row))
    times = Table("step", "way", "launches", "same state as apart", "ours, s", "stock/ours")
    for row in found.get("steps", []):
        told = row["program"], row["way"], str(row["launches"]), str(row["equal"])
        times.add_row(*told, f"{row['ours_s']:.4f}", _show_ratio(row))
    states = Table("program", "steps", "with the processor's root", "seconds")
    for row in found.get("states", []):
        cells = row["steps"], row["equal"], f"{row['seconds']:.1f}"
        states.add_row(row["program"], *map(str, cells))
    tensor = Table("product of bfloat16", "second factor", "equal bits", "TFLOP/s", "stock/ours")
    for row in found.get(_TENSOR, {}).get("products", []):
        lines = "of columns" if row["turned"] else "of steps"
        cells = row["shape"], lines, str(row["equal"])
        tensor.add_row(*cells, f"{row['tflops']:.1f}", _show_ratio(row))
    console.print(*(table for table in (products, times, states, tensor) if table.row_count))
    if "hashes" in found:
        console.print(f"trees over tensors: {found['hashes']['gb_per_s']:.2f} GB/s")


def _show_ratio(row: dict[str, Any]) -> str:
    return f"{row['ratio']:.2f}" if "ratio" in row else ""


@bench.command("hash")
@_shared
def hash_(
    threads: list[int],
    repeats: int,
    tiny: bool,  # noqa: FBT001 - click passes it
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Measure commitments: chunks and their tree."""
    from moot.bench.hashing import measure_hashing  # noqa: PLC0415 - imports torch

    rows = list(measure_hashing(threads, repeats, is_tiny=tiny))
    if as_json:
        click.echo(json.dumps({"rows": rows}, indent=2))
        return
    table = Table("name", "threads", "GB/s")
    for row in rows:
        table.add_row(row["name"], str(row["threads"]), f"{row['gb_per_s']:.2f}")
    options.make_console().print(table)


@bench.command("store")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where the files go; /dev/shm leaves the disk out  [default: the temporary folder].",
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Turns of each."
)
@click.option("--tiny", is_flag=True, help="Sizes that say nothing, for a trial.")
@options.as_json
def store_(
    folder: Path | None,
    repeats: int,
    tiny: bool,  # noqa: FBT001 - click passes it
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Measure the data store: 1.5 GB of state, fetched and verified.

    Beside it a plain copy of the same files, and a plain fetch over HTTP from the same server; each
    in a process of its own, until all is on the disk.
    """
    from moot.bench.store import measure_store  # noqa: PLC0415 - imports numpy

    found = measure_store(folder, repeats, is_tiny=tiny)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    console = options.make_console()
    table = Table("way", "GB/s", "peak memory, MB", "of these before, MB")
    for row in found["rows"]:
        memory = (f"{row[key] / 1e6:,.0f}" for key in ("peak_bytes", "before_bytes"))
        table.add_row(row["way"], f"{row['gb_per_s']:.2f}", *memory)
    console.print(table)
    console.print(
        f"{found['bytes'] / 1e9:.2f} GB; verified to copy {found['to_copy']:.2f}, "
        f"to plain fetch {found['to_fetch']:.2f}"
    )


@bench.command()
@click.option(
    "--program", "programs", multiple=True, help="gpt2, llama, resnet, bert or t5; all of them."
)
@click.option(
    "--size", default="full", show_default=True, help=f"{options.SIZE_HELP} --tiny comes before it."
)
@click.option(
    "--steps", type=click.IntRange(min=1), default=3, show_default=True, help="Steps of the run."
)
@click.option(
    "--checkpoint-every",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Steps between two checkpoints.",
)
@options.backend
@_shared
def dispute(
    programs: tuple[str, ...],
    size: str,
    steps: int,
    checkpoint_every: int,
    backend: str,
    threads: list[int],
    repeats: int,
    tiny: bool,  # noqa: FBT001 - click passes it
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Measure what honesty and a challenge cost a provider.

    Honesty: steps, hashing, writing; the run over its bare steps. A challenge: the states between
    two checkpoints, the trace of a step, and the answers about an operator, in steps.
    """
    from moot.bench import dispute as measured  # noqa: PLC0415 - imports torch
    from moot.offchain.arithmetic.ordered import ORDERED  # noqa: PLC0415 - likewise
    from moot.offchain.backends.table import describe_backend  # noqa: PLC0415 - likewise

    chosen = _choose("program", programs, measured.PROGRAMS)
    options.announce(describe_backend(backend, ORDERED))
    rows = []
    with options.progress(quiet=as_json) as report:
        report("dispute", 0, len(chosen) * len(threads))
        for row in measured.measure_disputes(
            chosen, "tiny" if tiny else size, steps, checkpoint_every, threads, repeats, backend
        ):
            rows.append(row)
            report("dispute", len(rows), len(chosen) * len(threads))
    if as_json:
        click.echo(json.dumps({"rows": rows}, indent=2))
    else:
        _print_costs(rows)


def _print_costs(rows: Sequence[dict[str, Any]]) -> None:
    """Print what honesty costs, and what a challenge does."""
    console = options.make_console()
    for title, columns in (
        ("honesty", (*_PROGRAM_COLUMNS, *_HONESTY_COLUMNS)),
        ("a challenge", (*_PROGRAM_COLUMNS, *_CHALLENGE_COLUMNS)),
    ):
        table = Table(*(column.title for column in columns), title=title)
        for row in rows:
            table.add_row(*(column.show(row[column.key]) for column in columns))
        console.print(table)


def _choose(subject: str, asked: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Return the names that were asked for, or else all."""
    for name in asked:
        if name not in known:
            raise UsageError.unknown(subject, name, known)
    return asked or known


def _show_rows(rows: "Iterator[Row]", *, as_json: bool) -> None:
    """Measure, and print what was found."""
    found = []
    with options.progress(quiet=as_json) as report:
        for row in rows:
            found.append(row)
            report(row.group, sum(other.group == row.group for other in found), 0)
    _print_rows(found, as_json=as_json)


def _print_rows(found: "Sequence[Row]", *, as_json: bool) -> None:
    """Print what was found."""
    from moot.bench.rows import summarise  # noqa: PLC0415 - imports torch

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
        columns = [c for c in _COLUMNS if any(c.key in row for row in rows)]
        table = Table(*(column.title for column in columns), title=group)
        for row in rows:
            table.add_row(*(c.show(row[c.key]) if c.key in row else "" for c in columns))
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


def _in_s(seconds: float) -> str:
    return f"{seconds:,.2f}"


def _in_gb(count: int) -> str:
    return f"{count / 1e9:.2f}"


_PROGRAM_COLUMNS = (
    _Column("program", "program"),
    _Column("threads", "threads"),
    _Column("step_s", "step, s", _in_s),
)
_HONESTY_COLUMNS = (
    _Column("first_step_s", "first step, s", _in_s),
    _Column("state_bytes", "state, GB", _in_gb),
    _Column("hash_s", "hash, s", _in_s),
    _Column("hash_gb_per_s", "GB/s", _as_ratio),
    _Column("write_s", "write, s", _in_s),
    _Column("write_gb_per_s", "GB/s", _as_ratio),
    _Column("steps", "steps"),
    _Column("run_s", "run, s", _in_s),
    _Column("run_over_steps", "run/steps", _as_ratio),
)
_CHALLENGE_COLUMNS = (
    _Column("interval_steps", "interval, steps", _as_ratio),
    _Column("trace_s", "trace, s", _in_s),
    _Column("trace_steps", "trace, steps", _as_ratio),
    _Column("answers_s", "answers, s", _in_s),
    _Column("answers_steps", "answers, steps", _as_ratio),
    _Column("most_answers_steps", "at most", _as_ratio),
    _Column("capture_s", "capture, s", _in_s),
)
_COLUMNS = (
    _Column("name", "name"),
    _Column("shape", "shape"),
    _Column("threads", "threads"),
    _Column("ours_s", "ours, ms", _in_ms),
    _Column("stock_s", "stock, ms", _in_ms),
    _Column("ratio", "stock/ours", _as_ratio),
    _Column("best", "best"),
    _Column("best_ratio", "best/ours", _as_ratio),
    _Column("commitment_s", "commit, ms", _in_ms),
    _Column("memory_ratio", "memory, ours/stock", _as_ratio),
)
