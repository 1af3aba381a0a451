"""`moot market`: runs a market of honest and dishonest providers, whose jobs are really run."""

import json
from contextlib import closing, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from moot.command import options
from moot.command.simulated import simulate_market
from moot.command.wording import describe_capture
from moot.offchain.errors import UsageError
from moot.sim.economy.strategies.table import LISTED
from moot.sim.experiments.presets import list_presets

if TYPE_CHECKING:
    from moot.sim.files import Folder
    from moot.sim.market import Market
    from moot.sim.results import JobResult
    from moot.sim.tables import Summary

DEFAULT_MIX = "honest=3,lazy=1,wrong-output=1,silent=1"
STEPS, CHECKPOINT_EVERY = 6, 3
WEI_DIGITS = 18


@click.command(
    short_help="Run a market: every job for real, or as CONFIG.toml says.",
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
@click.option(
    "--jobs",
    default=20,
    show_default="20, or what CONFIG says",
    help="Without CONFIG each goes to two or three providers.",
)
@click.option(
    "--mix",
    default=DEFAULT_MIX,
    show_default=True,
    help="How many providers have each strategy: one of those below.",
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
    help="Directory for the tables: those of docs/reference/market.md with CONFIG; strategies.csv, "
    "gas.csv and, as jobs are settled, jobs.csv without.",
)
@options.as_json
@click.pass_context
def market(
    context: click.Context,
    config: str | None,
    settings: tuple[str, ...],
    providers: int | None,
    jobs: int,
    mix: str,
    program: str,
    size: str,
    data: Path | None,
    precision: str,
    inference: bool,  # noqa: FBT001 - click passes it
    trust_capture: bool,  # noqa: FBT001 - likewise
    steps: int,
    checkpoint_every: int | None,
    arithmetic: str,
    chain: str,
    backend: str,
    seed: int,
    output: Path | None,
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Run a market of honest and dishonest providers.

    \b
      moot market baseline                                a simulated economy: seconds
      moot market my.toml --set bond.eth=0.5 -o results   your own, and its tables
      moot market --jobs 5                                every job for real: a minute

    With CONFIG.toml, or the name of a preset, it is a simulated economy: clients, providers and
    watchers with money and strategies, and prices of gas. Only --set, --jobs, --seed, -o and --json
    go with it; docs/reference/market.md has every key, `moot sweep` runs it for many settings, and
    `moot answers` asks what pays. A path/to/file.py:Class in it is code that runs on this machine,
    with all that you may do. Without CONFIG the other options say what is played:

    Some of the dishonest ones cheat in what they compute, others play tricks: with how and when
    they call, and with several accounts if it helps.

    Every job is really run by two or three of them, committed to, agreed upon or disputed, and
    paid on a chain. Prints what became of each strategy, and what each call costs. The same
    options give the same results, byte for byte.
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from moot.offchain.providers.setting import (  # noqa: PLC0415 - imports numpy
        Setting,
        describe_backends,
    )
    from moot.sim.files import Folder  # noqa: PLC0415 - likewise
    from moot.sim.market import open_market  # noqa: PLC0415 - likewise
    from moot.sim.mix import parse_mix  # noqa: PLC0415 - likewise
    from moot.sim.tables import make_object, summarise_market  # noqa: PLC0415 - likewise

    if config is not None:
        simulate_market(context, config, settings, output, as_json=as_json)
        return
    if settings:
        raise UsageError("--set changes a key of CONFIG; name a file or a preset")
    steps = options.check_steps(steps, inference=inference)
    setting = Setting(
        program=program,
        size=size,
        steps=steps,
        checkpoint_every=options.choose_interval(checkpoint_every, CHECKPOINT_EVERY, steps),
        arithmetic=arithmetic,
        chain=chain,
        backend=backend,
        seed=seed,
        data=data,
        precision=precision,
        inference=inference,
        trust_capture=trust_capture,
    )
    groups = parse_mix(mix, providers)
    check_jobs(jobs)
    with closing(Folder(output)) if output else nullcontext() as folder:
        opened = open_market(setting, groups, jobs)
        options.announce(describe_backends(setting))
        results = play(opened, folder, quiet=as_json)
        summary = summarise_market(opened.agents, results)
        if folder:
            folder.finish(summary)
    if as_json:
        compared = {"compared_with_torch": not trust_capture}
        click.echo(json.dumps(make_object(summary, results) | compared, indent=2))
    else:
        options.make_console().print(describe_capture(is_compared=not trust_capture))
        show(summary)


def check_jobs(jobs: int) -> None:
    """Refuse numbers that make no sense."""
    if jobs < 1:
        raise UsageError(f"--jobs {jobs} is not a positive number")


def play(opened: "Market", folder: "Folder | None", *, quiet: bool) -> list["JobResult"]:
    """Play a market, with a line on disk for every job and a bar for people."""
    results: list[JobResult] = []
    with options.progress(quiet=quiet) as report:
        report("jobs", 0, opened.jobs)
        for result in opened.play():
            results.append(result)
            report("jobs", len(results), opened.jobs)
            if folder:
                folder.append(result)
    return results


def show(summary: "Summary") -> None:
    """Print a market for people."""
    console = options.make_console()
    totals = summary.totals
    console.print(
        f"[bold]{totals.jobs} jobs[/], {totals.disputed} of them disputed in {totals.matches} "
        f"matches: {totals.right} answers right, {totals.wrong} wrong, {totals.void} void",
        markup=True,
    )
    console.print(_make_strategy_table(summary))
    console.print(_make_gas_table(summary))
    console.print(
        f"the client spent {_show_eth(-totals.client_wei)} ETH; {_show_eth(totals.fees_wei)} ETH "
        f"went to gas, {_show_eth(totals.burned_wei)} ETH were burned; all accounts add up"
    )


def _show_eth(wei: int, sign: str = "") -> str:
    return f"{Decimal(wei).scaleb(-WEI_DIGITS):{sign}.6f}"


def _make_table(title: str, names: int, *headers: str) -> Table:
    """Return a table whose first columns are names and whose others are numbers."""
    table = Table(title=title, box=None, pad_edge=False, title_justify="left")
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index < names else "right", no_wrap=True)
    return table


def _make_strategy_table(summary: "Summary") -> Table:
    headers = ("strategy", "providers", "jobs", "right", "won", "slashed")
    table = _make_table(
        "by strategy (right: claims that an honest run makes)",
        1,
        *headers,
        "gas paid",
        "profit in ETH",
    )
    for row in summary.strategies:
        counts = (row.providers, row.jobs, row.right, row.won, row.slashed)
        money = (_show_eth(row.fees_wei), _show_eth(row.profit_wei, "+"))
        table.add_row(row.strategy, *map(str, counts), *money)
    return table


def _make_gas_table(summary: "Summary") -> Table:
    headers = ("stage", "call", "moves", "minimum", "median", "maximum", "calldata", "execution")
    table = _make_table("gas by stage and call (calldata and execution: medians)", 2, *headers)
    for row in summary.gas:
        spread = (row.gas.minimum, row.gas.median, row.gas.maximum)
        amounts = (row.moves, *spread, row.calldata.median, row.execution.median)
        table.add_row(row.stage, row.call, *(f"{amount:,}" for amount in amounts))
    return table
