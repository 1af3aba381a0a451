"""`moot verifier`: rule on matches that stop at an operator."""

from pathlib import Path
from typing import Any

import click

from sim.command.groups import Group
from sim.command.parties import json_lines, party, setting_options


@click.group(cls=Group, short_help="Rule on matches that stop at an operator.")
def verifier() -> None:
    """Rule on matches that stop at an operator."""


@verifier.command(short_help="Rule on all matches that name this account.")
@setting_options(
    *("chain", "referee", "arithmetic", "key", "password_from", "max_fee_gwei", "confirmations"),
    *("store", "folder", "host", "port", "block_seconds"),
)
@json_lines
def run(config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click passes it
    """Rule on matches of the jobs that name the account of --key, until this is terminated.

    A job is run again once a match of it has begun; the disputed operator is then recomputed in a
    sandbox, from operands that are proven against the claim that was found true.
    """
    from offchain.parties.keeper import opened_keeper  # noqa: PLC0415 - imports the chain
    from offchain.parties.verifier import Verifier  # noqa: PLC0415 - imports numpy

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_keeper(Verifier, settings, tell) as keeper,
    ):
        keeper.run()
