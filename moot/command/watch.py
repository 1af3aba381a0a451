"""`moot watch`: run jobs again, say which claims are right, and bond a claim where none is."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from moot.command.parties import json_lines, party, setting_options
from moot.offchain.parties.settings import CONDITIONS

_OTHERS = ("backend", "engine", "stand_in_blocks", "verifier", "gas_budget", *CONDITIONS)


@click.command(short_help="Run jobs again, and say which claims are right.")
@click.argument("jobs", nargs=-1, type=click.IntRange(min=0), metavar="[JOB]...")
@click.option(
    "--rate",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="The share of jobs to run again, if none are named.",
)
@setting_options(
    *("chain", "referee", "arithmetic", "key", "password_from", "max_fee_gwei", "confirmations"),
    *("store", "folder", "host", "port", *_OTHERS),
)
@json_lines
def watch(
    jobs: tuple[int, ...],
    rate: float,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Run JOBs again, or a share of all, and say of each claim whether it is right.

    With --key, a job whose claims are all wrong is joined late, as long as new claims are taken,
    with the right one and the job's bond, which is then defended. Without a key nothing is sent.
    Goes on until it is terminated.
    """
    from moot.offchain.parties.daemon import opened_daemon  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.watcher import Watcher  # noqa: PLC0415 - imports numpy

    make = partial(Watcher, jobs=jobs, rate=rate)
    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_daemon(make, settings, tell, signs=bool(settings.key)) as daemon,
    ):
        daemon.run()
