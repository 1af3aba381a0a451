"""`moot court`: a page about a court, served on loopback."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moot.command import options
from moot.command.ending import catching_end
from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    from moot.offchain.record.schema import Record
    from moot.sim.viewer.follower import Follower

PORT = 8750


@click.command(
    short_help="Look at a court: jobs, claims, and how each dispute narrows.",
    epilog="\b\n"
    "Examples:\n"
    "  moot court --chain http://127.0.0.1:8545 --referee 0x…\n"
    "  moot dispute --program gpt2 --replay dispute.json\n"
    "  moot court dispute.json",
)
@click.argument("file", metavar="[FILE.json]", required=False, type=click.Path(path_type=Path))
@click.option("--chain", help="The URL of a JSON-RPC node, whose court is followed.")
@click.option("--referee", help="The address of the referee contract there.")
@click.option(
    "--from-block",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The block in which the referee was deployed, or any before.",
)
@click.option(
    "--published",
    metavar="STORE",
    help="A store to which `moot program publish` has put programs, for the names of operators: a "
    "folder, or an address such as `moot store serve` gives.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.05, max=3600),
    default=1.0,
    show_default=True,
    help="Seconds from one look at the chain to the next.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port to listen at; 0 for any that is free.",
)
@options.as_json
def court(
    file: Path | None,
    chain: str | None,
    referee: str | None,
    from_block: int,
    published: str | None,
    every: float,
    host: str,
    port: int,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> None:
    """Look at a court: jobs, claims, members, and how each dispute narrows to one operation.

    Serves a page until Control-C or SIGTERM. It shows the court of a referee on a chain, live, or
    the record FILE.json that `moot dispute --replay FILE.json` has written; a slider goes through
    the past. The page only reads: it has no account, and asks nobody but this program.
    """
    from moot.sim.viewer.server import serve  # noqa: PLC0415 - imports the page

    with ExitStack() as stack:
        stopped = stack.enter_context(catching_end())
        source = _open(stack, file, chain, referee, from_block, published, every)
        address = stack.enter_context(serve(source, host, port))
        if as_json:
            click.echo(json.dumps({"url": address}))
        else:
            click.echo(f"{address} shows the court; Control-C ends it")
        stopped.wait()


def _open(
    stack: ExitStack,
    file: Path | None,
    chain: str | None,
    referee: str | None,
    from_block: int,
    published: str | None,
    every: float,
) -> "Record | Follower":
    """Return what is shown: the record of a file, or the court on a chain."""
    if file is not None and (chain or referee):
        raise UsageError(f"choose one: the record {file}, or a chain with --chain and --referee")
    if file is not None:
        from moot.offchain.record.schema import read_record  # noqa: PLC0415 - seldom needed

        return read_record(file)
    if not chain or not referee:
        lacking = "--referee ADDRESS" if chain else "--chain URL" if referee else ""
        raise UsageError(
            f"{lacking} is missing"
            if lacking
            else "say what to show: --chain URL and --referee ADDRESS, or a record FILE.json"
        )
    address = options.parse_address(referee, "--referee")
    from moot.offchain.chain import connect  # noqa: PLC0415 - imports the chain
    from moot.offchain.record.published import PublishedNames  # noqa: PLC0415 - likewise
    from moot.offchain.record.referee_log import RefereeLog  # noqa: PLC0415 - likewise
    from moot.sim.viewer.follower import Follower  # noqa: PLC0415 - likewise

    names = None
    if published is not None:
        names = PublishedNames(stack.enter_context(options.opened_store(published)))
    opened = stack.enter_context(connect(chain))
    return Follower(RefereeLog.find(opened, address, from_block), every, names)
