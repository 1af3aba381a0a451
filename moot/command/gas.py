"""`moot gas`: what calls cost, in disputes of every kind, and what has changed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moot.command import gas_chains, options
from moot.command.groups import Group
from moot.sim.writing import write_whole

if TYPE_CHECKING:
    from moot.sim.gas.results import Results
    from moot.sim.gas.snapshot import Change

DEVIATED = 1
SNAPSHOT = "gas-snapshot.txt"

_scenarios = click.option(
    "--scenario",
    "names",
    multiple=True,
    help="Only this one, of those that `moot gas scenarios` lists; as often as you like.",
)
_file = click.argument("file", default=SNAPSHOT, type=click.Path(path_type=Path, dir_okay=False))


_FILE_HELP = f"FILE is a snapshot; by default it is {SNAPSHOT} in this folder."


@click.group(cls=Group, short_help="Measure what calls cost.")
def gas() -> None:
    """Measure what every call costs, in disputes of every kind, and compare with what it did."""


@gas.command()
@options.as_json
def chains(as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """List the chains that come with us."""
    from moot.sim.chains.files import find_chain, list_chains  # noqa: PLC0415 - imports msgspec

    found = [find_chain(name) for name in list_chains()]
    if as_json:
        rows = [{"chain": it.name, "kind": it.kind, "fork": it.fork} for it in found]
        click.echo(json.dumps({"chains": rows}, indent=2))
    else:
        for it in found:
            click.echo(f"{it.name:<14} {it.kind:<9} {it.fork:<17} of {it.date}")


@gas.command()
@options.as_json
def scenarios(as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """List the scenarios."""
    from moot.sim.gas.results import ABOUT  # noqa: PLC0415 - imports the EVM

    if as_json:
        click.echo(json.dumps({"scenarios": ABOUT}, indent=2))
    else:
        for name, about in ABOUT.items():
            click.echo(f"{name:<18} {about}")


@gas.command()
@_scenarios
@click.option("--summary", is_flag=True, help="A line a scenario, and none for calls.")
@click.option("--opcodes", is_flag=True, help="Break calls down by class of opcode.")
@click.option("--write", is_flag=True, help=f"Write what was measured into {SNAPSHOT}.")
@click.option(
    "--hardhat",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write Hardhat's gas statistics to this file.",
)
@gas_chains.choosing(
    "Print what scenarios cost on this chain, as `moot gas chains` lists them; as often as you "
    "like."
)
@options.as_json
def report(
    names: tuple[str, ...],
    summary: bool,  # noqa: FBT001 - click passes it
    opcodes: bool,  # noqa: FBT001 - likewise
    write: bool,  # noqa: FBT001 - likewise
    hardhat: Path | None,
    chains: tuple[str, ...],
    as_json: bool,  # noqa: FBT001 - likewise
    **prices: float | None,
) -> None:
    """Measure scenarios.

    They are played on the chain in memory, and a table tells what their calls cost. With one
    scenario, --json prints its object; with several, all of them in a list. With --chain the tables
    are of what the same calls cost on other chains, and of how long a dispute's clocks are there.
    """
    from moot.offchain.chain.tracer import TracedTester  # noqa: PLC0415 - imports the EVM
    from moot.sim.gas import on_chains, results, snapshot  # noqa: PLC0415 - likewise
    from moot.sim.gas.hardhat import make_stats  # noqa: PLC0415 - likewise
    from moot.sim.gas.opcodes import tabulate  # noqa: PLC0415 - likewise
    from moot.sim.gas.play import ACCOUNTS, Stage  # noqa: PLC0415 - likewise

    wanted = gas_chains.find_chains(chains, **prices)
    tester = TracedTester(ACCOUNTS) if opcodes else None
    with options.progress(quiet=as_json) as progress:
        found = results.measure(results.check_names(names), progress, Stage(tester))
    if write:
        path = Path(SNAPSHOT)
        before = snapshot.read(path) if names and path.exists() else []
        snapshot.write(path, snapshot.replace(before, found.lines, results.NAMES))
    if hardhat is not None:
        write_whole(hardhat, json.dumps(make_stats(found.measured), indent=2) + "\n")
    objects = found.make_objects()
    for entry, one in zip(objects, found.measured, strict=True):
        if tester is not None:
            entry["by_opcode"] = tabulate(one.played, tester.traces)
        if wanted:
            entry["chains"] = [on_chains.make_object(one.played, chain) for chain in wanted]
    if as_json:
        _echo_results(objects, found, is_one=len(names) == len(objects) == 1)
    elif wanted and objects:
        console = options.make_console()
        console.print(gas_chains.make_costs(objects))
        console.print(gas_chains.make_clocks(objects[0]["chains"]))
    else:
        _print(objects, found.make_functions(), with_calls=not summary)
        for name in found.demands:
            from moot.command.gas_tables import make_demands  # noqa: PLC0415 - imports the EVM

            options.make_console().print(make_demands(name, found.make_demands(name)))


def _echo_results(objects: Sequence[dict[str, Any]], found: "Results", *, is_one: bool) -> None:
    """Print what was measured as one JSON object."""
    from moot.sim.gas.results import DEMANDS  # noqa: PLC0415 - imports the EVM

    whole = {
        "scenarios": objects,
        "functions": found.make_functions(),
        **{name: found.make_demands(name) for name in DEMANDS},
    }
    click.echo(json.dumps(objects[0] if is_one else whole, indent=2))


def _print(
    objects: Sequence[dict[str, Any]],
    functions: Mapping[str, Mapping[str, float]],
    *,
    with_calls: bool,
) -> None:
    """Print tables: the calls of each scenario, the scenarios, and the functions."""
    from moot.command import gas_tables as tables  # noqa: PLC0415 - imports the EVM

    console = options.make_console()
    for entry in objects if with_calls else ():
        console.print(tables.make_calls(entry))
        for table in tables.make_opcodes(entry) if "by_opcode" in entry else ():
            console.print(table)
    if objects:
        console.print(tables.make_summary(objects))
    if functions:
        console.print(tables.make_functions(functions))


@gas.command(help=f"Show what has changed since a snapshot.\n\n{_FILE_HELP}")
@_file
@_scenarios
@options.as_json
def diff(file: Path, names: tuple[str, ...], as_json: bool) -> None:  # noqa: FBT001 - as above
    """Show what has changed since a snapshot."""
    from moot.command import gas_tables as tables  # noqa: PLC0415 - imports the EVM

    changes = _compare(file, names, quiet=as_json)
    if as_json:
        _echo(changes)
    elif changes:
        options.make_console().print(tables.make_changes(changes))
    else:
        click.echo(f"nothing has changed since {file}")


@gas.command(
    help=f"""Fail if a call's cost has changed.

    Exits with 1, and a line for each call that costs something else than a snapshot says.
    {_FILE_HELP}
    """
)
@_file
@_scenarios
@options.as_json
def check(file: Path, names: tuple[str, ...], as_json: bool) -> int:  # noqa: FBT001 - as above
    """Exit with 1, and a line for each call that costs something else than a snapshot says."""
    changes = _compare(file, names, quiet=as_json)
    if as_json:
        _echo(changes)
    else:
        for change in changes:
            click.echo(str(change))
    return DEVIATED if changes else 0


def _compare(file: Path, names: Sequence[str], *, quiet: bool) -> "list[Change]":
    """Measure, and return what is not as a snapshot says."""
    from moot.sim.gas import results, snapshot  # noqa: PLC0415 - imports the EVM

    chosen = results.check_names(names)
    before = snapshot.read(file)
    if names:
        before = snapshot.select(before, names)
    with options.progress(quiet=quiet) as progress:
        found = results.measure(chosen, progress)
    return snapshot.compare(before, found.lines)


def _echo(changes: "Sequence[Change]") -> None:
    """Print changes as one JSON object."""
    from dataclasses import asdict  # noqa: PLC0415 - only here

    listed: list[dict[str, Any]] = [asdict(change) for change in changes]
    click.echo(json.dumps({"changes": listed}, indent=2))
