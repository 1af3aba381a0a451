"""`moot client`: post a job, see it to its end, and fetch its result."""

from pathlib import Path
from typing import Any

import click

from sim.command import options
from sim.command.groups import Group
from sim.command.parties import json_lines, party, setting_options

NO_RESULT = 3
_JOB = click.argument("job", type=click.IntRange(min=0))
_CHAIN = ("chain", "referee", "arithmetic")
_KEY = (*_CHAIN, "key", "password_from", "max_fee_gwei", "confirmations")


@click.group(cls=Group, short_help="Post a job, and fetch its result.")
def client() -> None:
    """Post a job, see it to its end, and fetch its result."""


@client.command(short_help="Publish a task and open its job.")
@options.program("mlp", "tiny")
@options.length(16, 4)
@options.seed
@click.option("--reward", type=float, default=0.1, show_default=True, help="In ETH.")
@click.option("--bond", type=float, default=1.0, show_default=True, help="In ETH.")
@click.option("--commit-blocks", default=32, show_default=True, help="Time to run and to commit.")
@click.option("--reveal-blocks", default=16, show_default=True, help="Time to show claims.")
@click.option("--window-blocks", default=16, show_default=True, help="Time to join late.")
@click.option("--clock-blocks", default=64, show_default=True, help="Time of a side of a match.")
@setting_options(*_KEY, "store")
@json_lines
def post(
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Capture a program, publish its task to the store, and open the job; prints its number."""
    from offchain.disputes.session import Setting, make_task  # noqa: PLC0415 - imports torch
    from offchain.disputes.terms import Stakes  # noqa: PLC0415 - imports numpy
    from offchain.parties import client as parties  # noqa: PLC0415 - imports the chain
    from offchain.parties.live import opened_desk  # noqa: PLC0415 - likewise

    names = ("program", "size", "precision", "inference", "data", "trust_capture", "seed")
    chosen = {name: given.pop(name) for name in names}
    steps = options.check_steps(given.pop("steps"), inference=chosen["inference"])
    every = options.choose_interval(given.pop("checkpoint_every"), 4, steps)
    stakes = Stakes(
        bond_wei=options.to_wei(given.pop("bond"), "--bond"),
        reward_wei=options.to_wei(given.pop("reward"), "--reward"),
        **{f"{it}_blocks": given.pop(f"{it}_blocks") for it in _BLOCKS},
    )
    with party(config, given, as_json=as_json) as (settings, tell):
        settings.require("store")
        with opened_desk(settings, tell) as desk:
            arithmetic = settings.arithmetic
            setting = Setting(steps=steps, checkpoint_every=every, arithmetic=arithmetic, **chosen)
            parties.post(desk, make_task(setting), stakes)


_BLOCKS = ("commit", "reveal", "window", "clock")


@client.command(short_help="Say where a job stands.")
@_JOB
@setting_options(*_CHAIN)
@json_lines
def status(job: int, config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Say where JOB stands."""
    from offchain.parties.live import opened_desk  # noqa: PLC0415 - imports the chain

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_desk(settings, tell, signs=False) as desk,
    ):
        view = desk.view(job)
        known, name = view.tournament, view.job.status.name.lower()
        claims, matches = len(known.get_claims()), len(known.boards)
        line = f"job {job}: {name}, {claims} claims, {matches} matches, block {view.block - 1}"
        tell("status", line, job=job, status=name, claims=claims, matches=matches)


@client.command("await", short_help="See a job to its end.")
@_JOB
@setting_options(*_KEY)
@json_lines
def await_(job: int, config: Path | None, as_json: bool, **given: Any) -> int:  # noqa: FBT001 - click
    """See JOB to its end: begin the matches that are needed, end those nobody plays, settle.

    Exits with 0 when a claim has won, 3 when none has.
    """
    from contracts.reasons import Status  # noqa: PLC0415 - seldom needed
    from offchain.parties import client as parties  # noqa: PLC0415 - imports the chain
    from offchain.parties.live import opened_desk  # noqa: PLC0415 - likewise

    is_won = False
    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_desk(settings, tell) as desk,
    ):
        is_won = parties.await_end(desk, job) is Status.WON
    return 0 if is_won else NO_RESULT


@client.command(short_help="Fetch the final state of a job.")
@_JOB
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@setting_options(*_CHAIN, "store", "results")
@json_lines
def fetch(
    job: int,
    folder: Path,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Fetch the final state of JOB into FOLDER, verified against the claim that has won."""
    from offchain.parties import client as parties  # noqa: PLC0415 - imports the chain
    from offchain.parties.live import opened_desk  # noqa: PLC0415 - likewise

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_desk(settings, tell, signs=False) as desk,
    ):
        settings.require("results")
        parties.fetch(desk, job, folder, settings.results.split(","))
