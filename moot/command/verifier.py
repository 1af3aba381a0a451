"""`moot verifier`: rule on matches that stop at an operator."""

from pathlib import Path
from typing import Any

import click

from moot.command.groups import Group
from moot.command.parties import json_lines, party, setting_options


@click.group(cls=Group, short_help="Rule on matches that stop at an operator.")
def verifier() -> None:
    """Rule on matches that stop at an operator."""


@verifier.command(short_help="Rule on all matches that name this account.")
@setting_options(
    *("chain", "referee", "arithmetic", "key", "password_from", "max_fee_gwei", "confirmations"),
    *("store", "results", "folder", "host", "port", "block_seconds", "backend"),
)
@json_lines
def run(config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click passes it
    """Rule on matches of the jobs that name the account of --key, until this is terminated.

    The disputed operator is recomputed in a sandbox, from operands that are proven against what
    both sides have agreed on. Members hand them over at --results; where none does, or no place is
    known, the job is run for them.
    """
    from moot.offchain.parties.daemon import opened_daemon  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.verifier import Verifier  # noqa: PLC0415 - imports numpy

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_daemon(Verifier, settings, tell) as daemon,
    ):
        daemon.run()
