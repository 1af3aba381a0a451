"""`moot provider`: what a provider does by itself."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from moot.command import options
from moot.command.groups import Group
from moot.command.parties import announce_settings, json_lines, party, setting_options
from moot.offchain.parties.settings import CONDITIONS, read_settings

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
@options.leaf
@setting_options("arithmetic", "verifier", "backend", *CONDITIONS)
@options.as_json
def check(
    job: int,
    published: str,
    chain: str,
    referee: str,
    leaf: str | None,
    steps: int,
    checkpoint_every: int | None,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> int:
    """Check JOB, of which the client has PUBLISHED the program, the start state and the data.

    PUBLISHED is a store to which `moot program publish` has put them: a folder, or an address such
    as `moot store serve` gives. Every term is compared with what is asked for here, then what the
    program costs, by its shapes; what the job commits to is fetched and verified, all roots are
    computed again, and a leaf of every operator and drawn elements of the first steps are tried.
    The clocks are compared with the time that answers take at the worst. After a problem nothing
    is done that costs more. Prints a line for each problem. Exits with 0 when the job may be
    joined, 3 when it has problems.
    """
    from moot.contracts.deployment import bind_referee  # noqa: PLC0415 - imports the compiler
    from moot.offchain.arithmetic.table import find_arithmetic  # noqa: PLC0415 - imports numpy
    from moot.offchain.chain import connect  # noqa: PLC0415 - imports the chain
    from moot.offchain.disputes.joining.conditions import (  # noqa: PLC0415 - likewise
        check_cost,
        check_length,
        check_size,
        check_terms,
        check_worth,
        has_problem,
    )
    from moot.offchain.disputes.joining.job_check import agree_on, check_job  # noqa: PLC0415 - likewise
    from moot.offchain.disputes.referee.on_chain import ChainReferee  # noqa: PLC0415 - likewise
    from moot.offchain.parties.computing import make_conditions  # noqa: PLC0415 - likewise
    from moot.offchain.parties.referees import require_decidable  # noqa: PLC0415 - likewise
    from moot.offchain.parties.workshop import Checks  # noqa: PLC0415 - likewise
    from moot.offchain.providers.publication import get_program, get_task  # noqa: PLC0415 - numpy
    from moot.offchain.providers.setting import choose_leaf  # noqa: PLC0415 - likewise

    steps = options.check_steps(steps, inference=False)
    every = options.choose_interval(checkpoint_every, 4, steps)
    settings = read_settings(config, given)
    leaf_mode = choose_leaf(leaf, settings.arithmetic)
    arithmetic = find_arithmetic(settings.arithmetic)
    announce_settings(settings)
    with connect(chain) as opened, options.opened_store(published) as store:
        address = options.parse_address(referee, "--referee")
        require_decidable(opened, address, arithmetic)
        contract = bind_referee(opened, address, arithmetic)
        found = ChainReferee(opened, contract, 0).job(job)
        conditions = make_conditions(settings, found.terms, Checks.ALL)
        conditions = replace(conditions, leaf_mode=leaf_mode)
        findings = [*check_length(found, steps, every), *check_terms(found, conditions)]
        findings += check_size(found.terms, conditions)
        if not has_problem(findings):
            program = get_program(store, found.terms)
            findings += check_cost(found.terms, program, conditions)
            findings += check_worth(found, program, conditions, opened.block_number())
        if not has_problem(findings):
            agreed = agree_on(get_task(store, found.terms), conditions)
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
    from moot.offchain.parties.daemon import opened_daemon  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.provider import Provider  # noqa: PLC0415 - imports numpy

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_daemon(Provider, settings, tell) as daemon,
    ):
        daemon.run()


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
