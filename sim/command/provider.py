"""`moot provider`: what a provider does by itself."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from sim.command import options
from sim.command.groups import Group
from sim.command.parties import json_lines, party, setting_options

FAULTY = 3


@click.group(cls=Group, short_help="Check jobs, and take them.")
def provider() -> None:
    """What a provider does by itself."""


@provider.command(short_help="Check a job before joining it.")
@click.argument("job", type=click.IntRange(min=0))
@click.argument("published")
@click.option("--chain", required=True, help="The URL of a JSON-RPC node.")
@click.option("--referee", required=True, help="The address of the referee contract.")
@options.length(16, 4)
@click.option("--leaf", default="scalar", show_default=True, help="scalar or operator.")
@click.option("--verifier", help="The account that may rule on operators [default: nobody].")
@click.option(
    "--most-bond", type=float, default=1.0, show_default=True, help="The highest bond, in ETH."
)
@click.option(
    "--least-reward", type=float, default=0.0, show_default=True, help="The lowest reward, in ETH."
)
@click.option(
    "--crowd",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Members of one claim that the clocks have to withstand.",
)
@click.option(
    "--block-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=12.0,
    show_default=True,
    help="Time between blocks.",
)
@options.as_json
def check(
    job: int,
    published: str,
    chain: str,
    referee: str,
    leaf: str,
    verifier: str | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **wanted: Any,
) -> int:
    """Check JOB, of which the client has PUBLISHED the program, the start state and the data.

    PUBLISHED is a store to which `moot program publish` has put them: a folder, or an address such
    as `moot store serve` gives. What the job commits to is fetched and verified, all roots are
    computed again, every term is compared with what is asked for here, a leaf of every operator is
    tried, and drawn elements of drawn steps are, as far as the first interval goes. The clocks are
    compared with the time that answers take on this machine. Prints a line for each problem. Exits
    with 0 when the job may be joined, 3 when it has problems.
    """
    from contracts.deployment import bind_referee  # noqa: PLC0415 - imports the compiler
    from contracts.model.types import NOBODY  # noqa: PLC0415 - imports what follows
    from offchain.chain import connect  # noqa: PLC0415 - imports the chain
    from offchain.disputes.chain_referee import ChainReferee  # noqa: PLC0415 - likewise
    from offchain.disputes.job_check import agree_on, check_job  # noqa: PLC0415 - likewise
    from offchain.disputes.session import LEAVES  # noqa: PLC0415 - likewise
    from offchain.errors import UsageError  # noqa: PLC0415 - likewise
    from offchain.providers.publication import get_task  # noqa: PLC0415 - imports numpy

    if leaf not in LEAVES:
        raise UsageError.unknown("leaf", leaf, LEAVES)
    steps = options.check_steps(wanted["steps"], inference=False)
    every = options.choose_interval(wanted["checkpoint_every"], 4, steps)
    with connect(chain) as opened, options.opened_store(published) as store:
        address = options.parse_address(referee, "--referee")
        contract = bind_referee(opened, address)
        found = ChainReferee(opened, contract, 0).job(job)
        agreed = agree_on(
            get_task(store, replace(found.terms, steps=steps, checkpoint_every=every)),
            leaf_mode=LEAVES[leaf],
            verifier=verifier or NOBODY,
            most_bond_wei=options.to_wei(wanted["most_bond"], "--most-bond"),
            least_reward_wei=options.to_wei(wanted["least_reward"], "--least-reward"),
            crowd=wanted["crowd"],
            block_seconds=wanted["block_seconds"],
        )
        findings = check_job(opened, address, found, agreed)
    problems = {it.item: it.problem for it in findings if it.problem is not None}
    if as_json:
        items = {it.item: it.problem for it in findings}
        click.echo(
            json.dumps({"job": job, "may_be_joined": not problems, "items": items}, indent=2)
        )
    else:
        _show(job, len(findings), problems)
    return FAULTY if problems else 0


@provider.command(short_help="Take jobs: run them, claim, and defend the claims.")
@setting_options()
@json_lines
def run(config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Take the jobs of a referee until this is terminated.

    Each is checked, fetched, run, claimed, defended and collected; the results are served. Who was
    killed goes on from the folder and the chain.
    """
    from offchain.parties.keeper import opened_keeper  # noqa: PLC0415 - imports the chain
    from offchain.parties.provider import Provider  # noqa: PLC0415 - imports numpy

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_keeper(Provider, settings, tell) as keeper,
    ):
        keeper.run()


def _show(job: int, count: int, problems: dict[str, str]) -> None:
    """Print what was found."""
    console = options.make_console()
    if not problems:
        console.print(f"job {job} may be joined: {count} items hold")
        return
    table = Table("item", "problem", title=f"job {job} is not as agreed")
    for item, problem in problems.items():
        table.add_row(item, problem)
    console.print(table)
