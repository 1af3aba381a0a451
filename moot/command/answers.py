"""`moot answers`: what attacks bring beside honesty, what stops them, what a market invites."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.table import Table

from moot.command import designing, options
from moot.command.dispute_search import dispute_search
from moot.command.groups import Group
from moot.command.over_time import make_time_table
from moot.command.sweep import choose_engine, sweeping
from moot.offchain.errors import UsageError
from moot.sim.economy.audits import list_shortfalls

if TYPE_CHECKING:
    from moot.sim.analysis.best_response import Response
    from moot.sim.analysis.break_even import BreakEven, Range
    from moot.sim.analysis.over_time import Course
    from moot.sim.analysis.trials import Laboratory
    from moot.sim.economy.config import Config
    from moot.sim.estimates import Estimate
    from moot.sim.experiments.values import Value

REPS = 10
RATES = "0.1,0.5,1"
_SHOWN = 12
"""Lines of a table of best responses; --json has them all."""


def _asking(command: options.Command) -> options.Command:
    """Add what all questions have."""
    for option in (
        options.as_json,
        sweeping,
        click.option(
            "--reps",
            type=click.IntRange(1, 10_000),
            default=REPS,
            show_default=True,
            help="Repetitions, with other seeds; intervals are over these.",
        ),
        click.option(
            "--set",
            "settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="Give a key of the configuration another value first.",
        ),
        click.argument("config", metavar="CONFIG.toml|PRESET"),
    ):
        command = option(command)
    return command


@click.group(cls=Group, short_help="Ask what attacks bring, and what stops them.")
def answers() -> None:
    """Ask what attacks bring beside honesty, which value stops them, and what a market invites.

    Every attack is played beside its honest twin: the same market with the same random numbers, in
    which the attackers do what is agreed. Intervals are of 95%, over repetitions; that of a best
    response holds for the best of all that were tried. The burn-in counts nowhere (`burn_in`, half
    of the jobs where somebody learns), and it is said whether a market still changes after it.

    \b
      moot answers twins weak-audit
      moot answers break-even weak-audit audit.rate=0.001:0.1 --strategy lazy
      moot answers break-even baseline bond.eth=0.01:5 --strategy lazy --reps 20 --json
      moot answers break-even inference service.sample_rate=0:0.0001 --strategy lazy
      moot answers best-response weak-audit --rate 0.25:1:0.25
      moot answers sensitivity baseline bond.eth=0.1:2 audit.rate=0.01:0.3 --set jobs=2000
      moot answers design baseline audit.rate=0.001:0.2 --minimize audit_made --set jobs=2000 \\
        --where 'wrong_share <= 0.01'
    """  # noqa: D301 - \b is click's mark for lines that stay as they are


for _command in (designing.measures, designing.sensitivity, designing.design, dispute_search):
    answers.add_command(_command)


@answers.command(short_help="What all attackers gain, and others lose.")
@_asking
@click.option("--strategy", help="Only this strategy is the attack; all others stay as they are.")
def twins(
    config: str,
    settings: tuple[str, ...],
    reps: int,
    processes: int | None,
    engine: str,
    address: str | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    strategy: str | None,
) -> None:
    """Compare a market with its honest twin, in which nobody attacks.

    Tells the attackers' profit, the clients' loss, the cost of staying honest, the time to
    finality, the capital that is locked, and the share of bonds that is burned.
    """
    from moot.sim.analysis import twins as analysis  # noqa: PLC0415 - imports numpy

    market = open_market(config, settings)
    attackers = analysis.choose_attackers(market, strategy, name=config)
    with open_laboratory(market, engine, processes, address, quiet=as_json) as laboratory:
        contest = analysis.make_contest(market, attackers)
        (pairs,) = analysis.try_pairs(laboratory, [contest], reps)
    found, course = analysis.compare_twins(pairs), analysis.follow(pairs)
    if as_json:
        told = {name: asdict(estimate) for name, estimate in found.items()}
        told |= course.describe()
        click.echo(json.dumps({"attackers": attackers, "reps": reps, **told}, indent=2))
        return
    table = Table(title=f"{', '.join(attackers)} beside honesty, means of {reps} runs")
    for heading in ("", "mean", "95% interval"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, estimate in found.items():
        table.add_row(analysis.MEASURES[name][0], f"{estimate.value:,.4f}", _show(estimate))
    console = options.make_console()
    console.print(table)
    console.print(make_time_table(course))
    console.print(course.judge().describe())


@answers.command("break-even", short_help="At which value an attack no longer pays.")
@_asking
@click.argument("place", metavar="KEY=LOW:HIGH")
@click.option("--strategy", required=True, help="The attack: a strategy of this market.")
def break_even(
    config: str,
    settings: tuple[str, ...],
    reps: int,
    processes: int | None,
    engine: str,
    address: str | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    place: str,
    strategy: str,
) -> int:
    """Look for the value of a key at which an attack brings as much as honesty.

    The range is halved until the value is known to a thousandth of it. Exits with 1 if the attack
    pays, or does not pay, at both ends.
    """
    from moot.sim.analysis.break_even import find_break_even, parse_range  # noqa: PLC0415 - numpy
    from moot.sim.analysis.twins import check_strategy  # noqa: PLC0415 - likewise

    market, bounds = open_market(config, settings), parse_range(place)
    check_strategy(market, strategy)
    with open_laboratory(market, engine, processes, address, quiet=as_json) as laboratory:
        found = find_break_even(laboratory, market, bounds, strategy, reps)
        form = _find_form(market, bounds, strategy)
    if as_json:
        value = None if found.value is None else asdict(found.value)
        points = [
            {"value": it.value, "gains": it.gains} | it.course.describe() for it in found.points
        ]
        told = {"key": found.key, "value": value, "points": points} | form
        click.echo(json.dumps(told | {"strategy": strategy, "reps": reps}, indent=2))
    else:
        _show_break_even(found, strategy, reps)
        _show_form(found.key, form)
    return 0 if found.value is not None else 1


@answers.command("best-response", short_help="What a market invites a provider to do.")
@_asking
@click.option(
    "--conduct",
    "conducts",
    metavar="NAMES",
    help="Cheats and tricks to try, with commas between them.  [default: all]",
)
@click.option(
    "--rate", "rates", metavar="VALUES", default=RATES, show_default=True, help="Shares of jobs."
)
def best_response(
    config: str,
    settings: tuple[str, ...],
    reps: int,
    processes: int | None,
    engine: str,
    address: str | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    conducts: str | None,
    rates: str,
) -> None:
    """Try what one more provider can do in a market, and say what brings it most.

    It is like the first group's providers, and cheats or plays a trick in a share of its jobs; all
    others do what is configured. What is shown is what that brings it beyond honesty.
    """
    from moot.sim.analysis.best_response import (  # noqa: PLC0415 - imports numpy
        find_best_responses,
        list_conducts,
    )
    from moot.sim.experiments.values import parse_values  # noqa: PLC0415 - likewise

    market = open_market(config, settings)
    names = [name.strip() for name in conducts.split(",")] if conducts else list_conducts()
    shares = [_check_number(value) for value in parse_values(rates, "--rate")]
    with open_laboratory(market, engine, processes, address, quiet=as_json) as laboratory:
        found = find_best_responses(laboratory, market, names, shares, reps)
    if as_json:
        told = [
            {"conduct": it.conduct, "rate": it.rate, "gain": asdict(it.gain)}
            | {"burn_in": it.course.burn_in, "stationary": _is_stationary(it.course)}
            for it in found
        ]
        click.echo(json.dumps({"reps": reps, "responses": told}, indent=2))
        return
    table = Table(title=f"what it brings beyond honesty, ETH a job, means of {reps} runs")
    for heading in ("conduct", "rate", "gain", "95% interval", "stationary"):
        table.add_column(heading, justify="left" if heading == "conduct" else "right")
    for response in found[:_SHOWN]:
        gain = f"{response.gain.value:+.5f}"
        words = (response.conduct, f"{response.rate:g}", gain, _show(response.gain))
        table.add_row(*words, _say(response.course))
    console = options.make_console()
    console.print(table)
    console.print(make_time_table(found[0].course))
    console.print(_conclude(found[0]))
    console.print(found[0].course.judge().describe())


def _conclude(best: "Response") -> str:
    """Return a sentence about the best that was tried."""
    if best.gain.value <= 0:
        return "the best response is honesty: nothing that was tried brings more"
    told = f"the best response is {best.conduct} in a share {best.rate:g} of its jobs"
    if best.gain.low is None or best.gain.low <= 0:
        told += ", which may be chance: give more --reps, or jobs"
    return told


def open_market(config: str, settings: Sequence[str]) -> "Config":
    """Return a configuration with some values replaced."""
    from moot.sim.economy.config import replace_keys  # noqa: PLC0415 - imports msgspec
    from moot.sim.experiments.plan import check_names  # noqa: PLC0415 - imports numpy
    from moot.sim.experiments.presets import open_config  # noqa: PLC0415 - likewise

    market = replace_keys(
        open_config(config), options.read_settings(settings, "`moot sweep` varies keys")
    )
    check_names(market)
    return market


@contextmanager
def open_laboratory(
    market: "Config", engine: str, processes: int | None, address: str | None, *, quiet: bool
) -> "Iterator[Laboratory]":
    """Make ready to play a market and others that are like it."""
    from moot.sim.analysis import trials  # noqa: PLC0415 - imports pyarrow

    chosen = choose_engine(engine, processes, address)
    with (
        options.progress(quiet=quiet) as progress,
        trials.open_laboratory(market, chosen, progress) as laboratory,
    ):
        yield laboratory
    options.warn(list_shortfalls(laboratory.played))


def _show_break_even(found: "BreakEven", strategy: str, reps: int) -> None:
    """Print the values that were tried, and the place that was found."""
    table = Table(title=f"gain of {strategy} over honesty, means of {reps} runs")
    for heading in (found.key, "gain, ETH a job", "stationary"):
        table.add_column(heading, justify="right")
    for point in found.points:
        table.add_row(f"{point.value:g}", f"{point.mean:+.6f}", _say(point.course))
    console = options.make_console()
    console.print(table)
    console.print(make_time_table(found.nearest.course))
    console.print(f"at {found.nearest.value:g} {found.nearest.course.judge().describe()}")
    first, last = found.points[0], found.points[-1]
    if found.value is None:
        does = "pays" if first.mean > 0 else "does not pay"
        console.print(
            f"{strategy} {does} at {first.value:g} and at {last.value:g}: no break-even between "
            "them; try a wider range"
        )
        return
    console.print(
        f"{strategy} breaks even at {found.key} = {found.value.value:.4g}, 95% interval "
        f"{_show(found.value)}; it pays {'below' if first.mean > 0 else 'above'}"
    )


def _find_form(market: "Config", place: "Range", strategy: str) -> dict[str, float | None]:
    """Return the place by the closed form, if the attack has one: None where it has no place."""
    from moot.sim.analysis.closed_form import find_crossing, has_form  # noqa: PLC0415 - numpy
    from moot.sim.economy.simulate import make_outcomes  # noqa: PLC0415 - imports torch

    if not has_form(market, strategy):
        return {}
    return {"closed_form": find_crossing(market, make_outcomes(market), place, strategy)}


def _show_form(key: str, form: dict[str, float | None]) -> None:
    """Print the place by the closed form, if there is a form."""
    for value in form.values():
        place = "there is no break-even between them" if value is None else f"{key} = {value:.4g}"
        options.make_console().print(f"by the closed form of sim/theory/receipts.py: {place}")


def _is_stationary(course: "Course") -> bool | None:
    """Return whether a market has ceased to change; None if there are too few jobs to say."""
    verdict = course.judge()
    return verdict.is_stationary if verdict.is_known else None


def _say(course: "Course") -> str:
    """Return the same in a word."""
    return {True: "yes", False: "no", None: "?"}[_is_stationary(course)]


def _show(estimate: "Estimate") -> str:
    """Return the interval of an estimate."""
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"{estimate.low:,.4g} to {estimate.high:,.4g}"


def _check_number(value: "Value") -> float:
    """Return a value that has to be a number."""
    if isinstance(value, str | bool):
        raise UsageError(f"--rate {value} is not a number")
    return float(value)
