"""`moot answers dispute-search`: whether any legal moves beat an honest provider."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from moot.command import options

if TYPE_CHECKING:
    from moot.searching import Find, Search

BEATEN = 1
_ETHER = 10**18


@click.command("dispute-search", short_help="Whether any legal moves beat an honest provider.")
@click.option(
    "--games",
    type=click.IntRange(1, 10**9),
    default=5_000,
    show_default=True,
    help="How many are played, some hundreds in a second of a core.",
)
@options.seed
@click.option("--program", default="mlp", show_default=True, help=options.PROGRAM_HELP)
@click.option("--size", default="tiny", show_default=True, help=options.SIZE_HELP)
@click.option(
    "-j",
    "--processes",
    type=click.IntRange(1, 1024),
    help="Processes that play.  [default: one for each core]",
)
@click.option(
    "--contract",
    type=click.IntRange(0, 10_000),
    default=0,
    show_default=True,
    help="Play so many of the games again on the contract, call by call.",
)
@click.option(
    "--break",
    "rule",
    metavar="RULE",
    help="Break a rule of the model first, to see that it is found; --break list lists them.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that gets a line for each 5,000 games; a search that was interrupted goes on there.",
)
@options.as_json
def dispute_search(
    games: int,
    seed: int,
    program: str,
    size: str,
    processes: int | None,
    contract: int,
    rule: str | None,
    output: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> int:
    """Search for a policy that beats an honest provider within a dispute, move by move.

    An adversary with one to three accounts, that may be the client too, tries what is legal on the
    model of the referee: which claims it makes and shows, whom it meets, what it commits to in a
    match, its moves and those that anybody may make, how long it waits, and in which order calls
    come. Games are drawn, or go on from states that were seldom seen or came near to harm. Each is
    judged at its end: the right claim wins; the honest provider has its bond, its prizes and its
    share; the adversary has no more than honest accounts have; the job is over in time.

    Exits with 1 if a game broke one of these.

    \b
      moot answers dispute-search --games 20000 -j 2 --contract 4
      moot answers dispute-search --break early-timeout
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    if rule == "list":
        _list_rules(as_json=as_json)
        return 0
    from moot.searching import search_dispute  # noqa: PLC0415 - imports torch

    with options.progress(quiet=as_json) as progress:
        found = search_dispute(
            games,
            seed=seed,
            program=program,
            size=size,
            rule=rule,
            processes=processes or os.cpu_count() or 1,
            contract=contract,
            output=output,
            progress=progress,
        )
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _show(found)
    return BEATEN if found.sums["broken"] else 0


def _list_rules(*, as_json: bool) -> None:
    """Print the rules that can be broken."""
    from moot.sim.adversary.broken import RULES  # noqa: PLC0415 - imports the model

    if as_json:
        click.echo(json.dumps({name: rule.about for name, rule in RULES.items()}, indent=2))
        return
    for name, rule in RULES.items():
        click.echo(f"{name:<20} {rule.about}")


def _show(found: "Search") -> None:
    """Print what a search has come to."""
    sums, console = found.sums, options.make_console()
    table = Table(title="an adversary's choices, by kind")
    for heading in ("", "taken", "refused"):
        table.add_column(heading, justify="right" if heading else "left")
    for kind, count in sums["accepted"].items():
        table.add_row(kind, f"{count:,}", f"{sums['refused'].get(kind, 0):,}")
    console.print(table)
    games, matches = sums["games"], sum(sums["matches"].values())
    console.print(
        f"games: {games:,}, of which {sums['paths']:,} unlike; tables: {sums['parts']}; "
        f"states of a job: {sums['cells']:,}; matches: {matches:,}; calls: {sums['calls']:,}; "
        f"{1_000 * sums['seconds'] / games:.2f} ms a game"
    )
    if found.contested:
        otherwise = sum(bool(said) for said in found.contested)
        console.print(f"{len(found.contested)} games on the contract: {otherwise} otherwise")
    if not sums["broken"]:
        best = sums["best_wei"] / _ETHER
        console.print(
            "no game beats the honest provider; the best has "
            f"{best:+g} ETH beside what honest accounts have"
        )
    for find in found.finds:
        _show_find(find)


def _show_find(find: "Find") -> None:
    """Print a game that breaks a promise."""
    table = Table(title=f"not so at table {find.table}: {'; '.join(find.verdict.broken)}")
    for heading in ("block", "who", "call"):
        table.add_column(heading, justify="right" if heading == "block" else "left")
    for block, who, call in find.calls:
        table.add_row(f"{block}", who, call)
    console = options.make_console()
    console.print(table)
    if find.contract is not None:
        console.print(f"on the contract: {find.contract or 'the same, call by call'}")
