"""`moot learn`: looks for an attack on a market that no strategy of ours makes."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from moot.command import options
from moot.command.answers import open_laboratory, open_market
from moot.command.sweep import sweeping

if TYPE_CHECKING:
    from moot.sim.learning.comparing import Standing
    from moot.sim.learning.judging import Judgement
    from moot.sim.learning.training import Round

_MILLI = 1000.0
_SHOWN = 10
"""Lines of the table of strategies; --json has them all."""

_count, _count_jobs = click.IntRange(1, 10_000), click.IntRange(1, 10**9)


@click.command(short_help="Look for an attack on a market by learning.")
@click.argument("config", metavar="CONFIG.toml|PRESET")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Give a key of the configuration another value first.",
)
@click.option(
    "--conduct",
    "conducts",
    metavar="NAMES",
    default="lazy",
    show_default=True,
    help="What it can do instead of honest work, with commas between them.",
)
@click.option("--jobs", type=_count_jobs, default=2000, show_default=True, help="Of each market.")
@click.option("--count", type=_count, default=2, show_default=True, help="How many join.")
@click.option("--rounds", type=_count, default=12, show_default=True, help="Rounds of the search.")
@click.option(
    "--candidates", type=_count, default=24, show_default=True, help="Policies of each round."
)
@click.option("--kept", type=_count, default=6, show_default=True, help="The best of them.")
@click.option(
    "--reps", type=_count, default=2, show_default=True, help="Markets of each in each round."
)
@click.option(
    "--compared",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    help="Repetitions in which it is compared with every strategy of ours; 0 for no comparison.",
)
@click.option(
    "--judged",
    type=click.IntRange(0, 10**6),
    default=200,
    show_default=True,
    help="Jobs of the market whose disputes are played on the contract, too; 0 for none.",
)
@options.seed
@sweeping
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for what is found; new, or that of a search that was interrupted.",
)
@options.as_json
def learn(
    config: str,
    settings: tuple[str, ...],
    jobs: int,
    conducts: str,
    compared: int,
    judged: int,
    processes: int | None,
    engine: str,
    address: str | None,
    output: Path,
    as_json: bool,  # noqa: FBT001 - click passes it
    **asked: int,
) -> None:
    """Look for an attack on a market by learning, and try it beside every strategy of ours.

    Newcomers with a linear policy join the market: it sees what every provider sees, and lies
    where that has paid. Each candidate is played beside its honest twin, with the same random
    numbers. What is found is compared with every cheat, trick and strategy in markets that no
    round has seen, and its disputes are played on the contract; one that ends otherwise there
    fails. The folder has the market with the policy (`market.toml`, for every other verb), the
    learning curve (`curve.csv`, `curve.html`), and the state, so that the same command goes on.

    \b
      moot learn no-stake-floor -o found
      moot answers twins found/market.toml --strategy linear
      moot answers break-even found/market.toml bond.least_eth=0:1 --strategy linear
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    from moot.sim.learning import comparing, folder, judging, training  # noqa: PLC0415 - numpy
    from moot.sim.learning.acting import read_conducts  # noqa: PLC0415 - likewise

    market = open_market(config, (*settings, f"jobs={jobs}"))
    search = training.Search(market, read_conducts(conducts), **asked)
    state = folder.recall(output, search)
    console = options.make_console(quiet=as_json)
    standings: Sequence[Standing] = ()
    judgement = None
    with open_laboratory(market, engine, processes, address, quiet=as_json) as laboratory:
        state = state or training.begin(search)

        def tell(played: "Round") -> None:
            folder.keep(output, search, state)
            console.print(_describe(played))

        training.go_on(search, state, laboratory, tell)
        learned = search.name(state.weights)
        if compared:
            newcomers = [learned, *comparing.list_built_in()]
            standings = comparing.compare(laboratory, market, newcomers, search.count, compared)
        if judged:
            found = folder.find_market(search, state)
            judgement = judging.judge(found, laboratory.progress, judged)
    if as_json:
        told = {
            "policy": dict(learned.parameters),
            "rounds": [asdict(it) for it in state.rounds],
            "standings": [asdict(it) for it in standings],
            "judgement": None if judgement is None else asdict(judgement),
        }
        click.echo(json.dumps(told, indent=2))
        return
    if standings:
        console.print(_make_table(standings, compared))
    if judgement is not None:
        console.print(_conclude(judgement))
    console.print(f"{output / folder.MARKET} is the market with the policy")


def _describe(played: "Round") -> str:
    """Return a line about a round."""
    policy = played.policy
    spread = f" ± {policy.margin * _MILLI:.2f}" if policy.margin else ""
    return (
        f"round {played.number:>3}: the policy so far gains {policy.value * _MILLI:+.2f}{spread} "
        f"mETH a job, the best candidate {played.best * _MILLI:+.2f}"
    )


def _make_table(standings: "Sequence[Standing]", reps: int) -> Table:
    """Return the table of the best strategies, the one that was learned among them."""
    title = f"newcomers beside honest ones, {len(standings)} strategies, means of {reps} runs"
    table = Table(title=title)
    table.add_column("strategy")
    for heading in ("place", "gain, mETH a job", "95% interval", "clients lose, ETH"):
        table.add_column(heading, justify="right")
    for place, it in enumerate(standings, 1):
        if place <= _SHOWN or it.name == "learned":
            low, high = (bound and bound * _MILLI for bound in (it.gain.low, it.gain.high))
            interval = "-" if low is None or high is None else f"{low:+.2f} to {high:+.2f}"
            gain = f"{it.gain.value * _MILLI:+.2f}"
            loss = f"{it.clients_loss.value:,.2f}"
            table.add_row(it.name, f"{place}", gain, interval, loss)
    return table


def _conclude(judgement: "Judgement") -> str:
    """Return a sentence about what the contract says."""
    return (
        f"of {judgement.jobs:,} jobs {judgement.cheated:,} were cheated in and "
        f"{judgement.disputes:,} disputed; {judgement.played:,} disputes were played on the "
        f"contract, and all ended as modelled; {judgement.wrong:,} wrong answers were accepted"
    )
