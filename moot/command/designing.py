"""`moot answers sensitivity` and `design`: which keys decide a market, and their best values."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from moot.command import options
from moot.command.sweep import choose_engine, sweeping
from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    from moot.answered import Design, Sensitivity
    from moot.sim.analysis.design import Design as Designed
    from moot.sim.analysis.design import Finalist
    from moot.sim.estimates import Estimate

PAGE, ANSWER = "report.html", "answer.json"
"""What a folder gets beside the trials."""

UNMET = 1
"""The exit status where no design meets its limits."""

_RANGES = """\b
Ranges of keys:
  bond.eth=0.1:2                  any number from 0.1 to 2
  audit.rate=0.001:0.1:log        the same share of trials for each power of ten
  providers.lazy.count=0:8        whole numbers, where a key takes no others
  bond.name=constant,proportional one of these
"""


def _exploring(command: options.Command) -> options.Command:
    """Add what both questions have."""
    for option in (
        options.as_json,
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, file_okay=False),
            help=f"Folder for the trials, {ANSWER} and {PAGE}; new, or that of the same command "
            "when it was interrupted.",
        ),
        click.option("--strategy", help="Whose gain is measured  [default: all attackers']."),
        sweeping,
        click.option(
            "--set",
            "settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="Give a key of the configuration another value first.",
        ),
        click.argument("ranges", metavar="KEY=RANGE...", nargs=-1, required=True),
        click.argument("config", metavar="CONFIG.toml|PRESET"),
    ):
        command = option(command)
    return command


@click.command(short_help="List what markets can be measured by.")
@options.as_json
def measures(as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """List the measures of markets that `sensitivity` and `design` know."""
    from moot.sim.analysis.measures import WORDS  # noqa: PLC0415 - imports numpy

    if as_json:
        click.echo(json.dumps(dict(WORDS), indent=2))
        return
    for name, words in WORDS.items():
        click.echo(f"{name:18} {words}")


@click.command(short_help="Which keys decide what a market comes to.", epilog=_RANGES)
@_exploring
@click.option(
    "--measure",
    "names",
    multiple=True,
    help="What is explained, as `moot answers measures` lists it; as often as you like  [default: "
    "wrong_share, client_eth].",
)
@click.option(
    "--samples",
    type=int,
    default=64,
    show_default=True,
    help="Samples, a power of 2; each takes a run for every key, and three more.",
)
def sensitivity(names: tuple[str, ...], samples: int, **asked: Any) -> None:
    """Measure which keys of a market decide what it comes to: Sobol indices, by SALib.

    An index is the share of a measure's variance, over the ranges that are named, that is due to a
    key: alone (first order), and with all that it does together with others (total). The seed is
    one more factor, `chance`. Intervals are of 95%, by SALib's bootstrap.

    \b
      moot answers sensitivity baseline bond.eth=0.1:2 audit.rate=0.01:0.3 --set jobs=2000
      moot answers sensitivity weak-audit audit.rate=0.001:0.1:log --measure gain_eth_per_job
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from moot.answering import MEASURES  # noqa: PLC0415 - imports pyarrow
    from moot.answering import sensitivity as find  # noqa: PLC0415 - likewise

    chosen = names or MEASURES
    found = _ask(find, asked, measures=tuple(dict.fromkeys(chosen)), samples=samples)
    _finish(found, asked, _show_sensitivity)


@click.command(short_help="Which values of keys are best, under limits.", epilog=_RANGES)
@_exploring
@click.option("--minimize", help="The measure of which less is better.")
@click.option("--maximize", help="The measure of which more is better.")
@click.option(
    "--where",
    "limits",
    metavar="LIMIT",
    multiple=True,
    help="A limit, such as 'wrong_share <= 0.01'; as often as you like.",
)
@click.option("--trials", type=int, default=128, show_default=True, help="Designs to look at.")
@click.option("--reps", type=int, default=4, show_default=True, help="Seeds of each in the search.")
@click.option(
    "--fresh",
    type=int,
    default=20,
    show_default=True,
    help="Other seeds, with which the best three are played again.",
)
def design(
    minimize: str | None,
    maximize: str | None,
    limits: tuple[str, ...],
    trials: int,
    reps: int,
    fresh: int,
    **asked: Any,
) -> int:
    """Search for the values of keys at which a measure is best, under limits on others.

    The best of many designs seems better than it is, so that the best three are played again with
    seeds that the search has not seen; intervals of 95% hold for all of them together. Exits with
    1, and says which limits bind, if no design meets them all.

    \b
      moot answers design baseline bond.eth=0.2:4 audit.rate=0.005:0.2 --minimize deterrence_eth \\
        --where 'gain_eth_per_job <= 0' --set jobs=2000 --set capital.rate=1
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from moot.answering import design as find  # noqa: PLC0415 - imports pyarrow

    found = _ask(
        find,
        asked,
        minimize=minimize,
        maximize=maximize,
        where=limits,
        trials=trials,
        reps=reps,
        fresh=fresh,
    )
    _finish(found, asked, _show_design)
    if found.found.best is None:
        if found.found.binding:
            click.echo(f"moot: {found.found.binding}", err=True)
        return UNMET
    return 0


def _ask(find: Callable[..., Any], asked: dict[str, Any], **own: Any) -> Any:
    """Ask, with progress, and return what was found."""
    given = options.read_settings(asked["settings"], "name its range instead")
    ranges = {}
    for text in asked["ranges"]:
        key, equals, values = text.partition("=")
        if not equals or not values or key in ranges:
            raise UsageError(f"{text} is no key with its range, or there twice; see --help")
        ranges[key.strip()] = values.strip()
    engine = choose_engine(asked["engine"], asked["processes"], asked["address"])
    with options.progress(quiet=asked["as_json"]) as progress:
        return find(
            asked["config"],
            ranges,
            **own,
            strategy=asked["strategy"],
            set=given,
            output=asked["output"],
            engine=engine,
            progress=progress,
        )


def _finish(found: Any, asked: dict[str, Any], show: Callable[[Any], None]) -> None:
    """Print an answer, and write it into the folder that is named."""
    from moot.sim.writing import write_whole  # noqa: PLC0415 - of folders alone

    options.warn(found.warnings)
    text = json.dumps(found.to_dict(), indent=2)
    if asked["output"] is not None:
        write_whole(asked["output"] / ANSWER, text + "\n")
        write_whole(asked["output"] / PAGE, found.make_page())
    if asked["as_json"]:
        click.echo(text)
        return
    show(found)
    if asked["output"] is not None:
        click.echo(f"plots: {asked['output'] / PAGE}")


def _show_sensitivity(answer: "Sensitivity") -> None:
    """Print the indices for people."""
    from moot.sim.analysis.measures import WORDS  # noqa: PLC0415 - imports numpy

    console, found = options.make_console(), answer.found
    for one in found.explained:
        if not one.indices:
            console.print(f"{one.measure} is {one.mean:.4g} everywhere: nothing decides it")
            continue
        table = Table(title=f"{WORDS[one.measure]}: shares of its variance")
        for heading in ("key", "alone", "95% interval", "with others", "95% interval"):
            table.add_column(heading, justify="left" if heading == "key" else "right")
        for it in one.indices:
            cells = [cell for index in (it.first, it.total) for cell in _tell(index)]
            table.add_row(it.key, *cells)
        console.print(table)
        console.print(f"mean {one.mean:.4g}, standard deviation {one.deviation:.4g}")
    console.print(
        f"{found.samples} samples, {found.markets:,} markets, intervals by {found.resamples:,} "
        "resamples"
    )


def _tell(index: "Estimate") -> Sequence[str]:
    return f"{index.value:.3f}", f"{index.low:.3f} to {index.high:.3f}"


def _show_design(answer: "Design") -> None:
    """Print the best designs for people."""
    console, found = options.make_console(), answer.found
    names = list(found.configured.found)
    table = Table(title=f"designs of {found.goal.describe()}, with {found.fresh} fresh seeds")
    for heading in ("", *found.keys, *names, *(it.describe() for it in found.limits)):
        table.add_column(heading, justify="left" if not heading else "right")
    for one in found.finalists:
        table.add_row("best" if one is found.best else "", *_describe(found, one))
    table.add_row("as configured", *_describe(found, found.configured))
    console.print(table)
    console.print(
        f"{len(found.tried):,} designs were tried with {found.reps} seeds each; intervals are of "
        "95%, and hold for all of them together"
    )
    if found.best is not None and "unsure" in found.best.verdicts:
        console.print("a limit is met on average, and its interval reaches beyond it")


def _describe(found: "Designed", one: "Finalist") -> list[str]:
    from moot.sim.report.answers import show_estimate  # noqa: PLC0415 - imports plotly

    values = [f"{it:g}" if isinstance(it, float) else str(it) for it in one.point]
    values = values or ["" for _ in found.keys]
    return [*values, *map(show_estimate, one.found.values()), *one.verdicts]
