"""`moot market`: runs a market of honest and dishonest providers, simulated or played."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moot.command import options
from moot.command.market_page import PORT, check_watch, show_live
from moot.command.wording import describe_capture
from moot.offchain.errors import UsageError
from moot.sim.economy.strategies.table import LISTED
from moot.sim.experiments.presets import list_presets

if TYPE_CHECKING:
    from moot.sim.economy.config import Config, Program

PLAYED = "played"
"""The preset that is run where no other configuration is named."""

STEPS, CHECKPOINT_EVERY = 6, 3

_OF_SWEEPS = frozenset({"runs", "failed"})

_OF_PROGRAM = ("size", "data", "precision", "inference", "trust_capture", "arithmetic", "backend")
_KEYS = {
    "jobs": "jobs",
    "seed": "seed",
    "chain": "chain.url",
    "program": "program.name",
    **{name: f"program.{name}" for name in _OF_PROGRAM},
}
"""The options that are keys of a configuration, too."""


@click.command(
    short_help="Run a market once: played on a chain, or as CONFIG.toml says.",
    epilog="\n\n".join(
        options.list_choices(title, {name: it.about for name, it in group.items()})
        for title, group in LISTED.items()
    )
    + "\n\n"
    + options.list_choices("Presets of CONFIG:", list_presets()),
)
@click.argument("config", metavar="[CONFIG.toml|PRESET]", required=False)
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a key of CONFIG, such as --set bond.eth=0.5 or --set fidelity=mixed.",
)
@click.option(
    "--providers", type=int, help="What the counts of the mix add up to.  [default: they do]"
)
@click.option("--jobs", type=int, help="How many jobs arrive.  [default: as CONFIG says]")
@click.option(
    "--mix",
    metavar="STRATEGY=COUNT,...",
    help="How many providers have each strategy: honest=3,lazy=1.  [default: as CONFIG says]",
)
@options.program("mlp", "tiny")
@options.length(STEPS, CHECKPOINT_EVERY)
@options.arithmetic
@options.chain
@options.backend
@options.seed
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder for the tables, new or empty: those of docs/reference/market.md.",
)
@click.option(
    "--watch",
    "is_watched",
    is_flag=True,
    help="Show it in a browser while it runs, with sliders that begin it again with other values.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Where --watch listens on loopback; 0 for any that is free.  [default: {PORT}]",
)
@options.as_json
@click.pass_context
def market(
    context: click.Context,
    /,
    config: str | None,
    settings: tuple[str, ...],
    output: Path | None,
    is_watched: bool,  # noqa: FBT001 - click passes it
    port: int | None,
    as_json: bool,  # noqa: FBT001 - likewise
    **_: object,
) -> None:
    """Run a market of honest and dishonest providers.

    \b
      moot market baseline                                a simulated economy: seconds
      moot market my.toml --set bond.eth=0.5 -o results   your own, and its tables
      moot market --jobs 5                                every job for real: half a minute
      moot market baseline --watch                        a page with charts and sliders

    Clients, providers and watchers have money and strategies; rules say who gets a job, what is
    locked, and who looks. CONFIG.toml, or the name of a preset, says all of it:
    docs/reference/market.md has every key, `moot sweep` runs it for many settings, and
    `moot answers` asks what pays. A path/to/file.py:Class in it is code that runs on this machine,
    with all that you may do.

    Its `fidelity` says what becomes of a job: `modelled` knows it from a table of cases, `played`
    runs it for real: committed to, agreed upon or disputed, and paid on a chain. That is what
    happens without CONFIG, which stands for the preset `played`.

    The other options change keys of CONFIG, too, where they are given. The same options give the
    same tables, byte for byte.
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from moot.command.market_results import show_market  # noqa: PLC0415 - imports rich
    from moot.markets import simulate  # noqa: PLC0415 - imports pyarrow

    check_watch(output, port, is_watched=is_watched)
    chosen = choose_config(context, config or PLAYED, settings)
    captured = {"compared_with_torch": not chosen.program.trust_capture}
    if chosen.fidelity != "modelled":
        _announce(chosen.program)
    if is_watched:
        show_live(config or PLAYED, chosen, PORT if port is None else port, as_json=as_json)
        return
    with options.progress(quiet=as_json) as progress:
        results = simulate(chosen, output=output, progress=progress)
    if as_json:
        counts = {name: it for name, it in results.counts.items() if name not in _OF_SWEEPS}
        measured = {"seconds": round(results.seconds, 3), "peak_mib": round(results.peak_mib, 1)}
        warned = {"warnings": results.warnings}
        told = results.describe() | counts | captured | measured | warned
        click.echo(json.dumps(told, indent=2))
        options.warn(results.warnings)
        return
    console = options.make_console()
    if chosen.fidelity == PLAYED:
        console.print(describe_capture(is_compared=captured["compared_with_torch"]))
    show_market(results, console)
    options.warn(results.warnings)


def _announce(program: "Program") -> None:
    """Say what computes played jobs."""
    from moot.offchain.arithmetic.table import find_arithmetic  # noqa: PLC0415 - imports numpy
    from moot.offchain.backends.table import describe_backend  # noqa: PLC0415 - likewise

    options.announce(describe_backend(program.backend, find_arithmetic(program.arithmetic)))


def choose_config(context: click.Context, name: str, settings: Sequence[str]) -> "Config":
    """Return a configuration, with all that the options of a command change in it.

    Args:
        context: tells which options were given.
        name: of a file or a preset.
        settings: `KEY=VALUE`, each with one value.

    Raises:
        UsageError: something that was asked for is impossible.
    """
    from moot.sim.economy.config import replace_keys  # noqa: PLC0415 - imports msgspec
    from moot.sim.economy.mix import mix_providers, parse_mix  # noqa: PLC0415 - likewise
    from moot.sim.experiments.presets import open_config  # noqa: PLC0415 - likewise

    given = _list_given(context)
    config = open_config(name)
    if "mix" in given:
        config = mix_providers(config, parse_mix(given["mix"], given.get("providers")))
    elif "providers" in given:
        raise UsageError("--providers is what the counts of a mix add up to; give a --mix")
    values: dict[str, Any] = {
        **options.read_settings(tuple(settings), "`moot sweep` runs them all")
    }
    check_jobs(given.get("jobs", 1))
    values |= {key: given[option] for option, key in _KEYS.items() if option in given}
    if "data" in given:
        values["program.data"] = str(given["data"])
    return replace_keys(config, values | _list_lengths(given, config))


def check_jobs(jobs: int) -> None:
    """Refuse numbers that make no sense."""
    if jobs < 1:
        raise UsageError(f"--jobs {jobs} is not a positive number")


def _list_given(context: click.Context) -> dict[str, Any]:
    """Return the options that were given, by their names."""
    source = context.get_parameter_source
    return {
        name: value
        for name, value in context.params.items()
        if source(name) is ParameterSource.COMMANDLINE
    }


def _list_lengths(given: dict[str, Any], config: "Config") -> dict[str, int]:
    """Return the keys of the length of a job, if an option is about it."""
    if not given.keys() & {"steps", "checkpoint_every", "inference"}:
        return {}
    program = config.program
    steps = given.get("steps", program.steps)
    steps = options.check_steps(steps, inference=given.get("inference", program.inference))
    wanted = given.get("checkpoint_every")
    interval = options.choose_interval(wanted, program.checkpoint_every, steps)
    return {"program.steps": steps, "program.checkpoint_every": interval}
