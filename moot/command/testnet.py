"""`moot testnet`: a court on this machine, with every party a process of its own."""

import os
import re
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moot.command import options
from moot.command.groups import Group
from moot.command.parties import json_lines, party
from moot.command.testnet_answers import LIE, play_answers
from moot.offchain.errors import MootError, UsageError

if TYPE_CHECKING:
    from moot.offchain.parties.events import Lines
    from moot.offchain.parties.testnet import Testnet

MOOT = (sys.executable, "-c", "from moot.command import main; main()")
START_S = 120.0
DEFAULT_JOB = "mlp"


@click.group(cls=Group, short_help="Try the court on this machine.")
def testnet() -> None:
    """Try the court on this machine."""


@testnet.command(
    short_help="Start a node, a referee, a store and providers, and play a job.",
    epilog="\b\n"
    "Examples:\n"
    "  moot testnet up --providers 3 --cheat wrong-output\n"
    "  moot testnet up --providers 0 --folder net\n"
    "  moot testnet up --serve checkpoint",
)
@click.option("--providers", type=click.IntRange(min=0, max=32), default=2, show_default=True)
@click.option("--cheat", default="", help="What the first provider does otherwise than agreed.")
@click.option(
    "--job",
    metavar="PROGRAM",
    help=f"What the client has run: {options.PROGRAM_HELP} The net ends with this job.  [default: "
    "mlp, if there are providers, and the net stays]",
)
@click.option(
    "--serve",
    "served",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A checkpoint that the providers answer by, with receipts, instead of running a job; the "
    "first one lies about a token, or as --cheat says.",
)
@click.option("--watcher", is_flag=True, help="Start a watcher, too, which may bond a claim.")
@options.leaf
@options.precision
@options.arithmetic
@click.option("--steps", default=4, show_default=True, help="Steps of the job.")
@click.option(
    "--commit-blocks",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="Time to run the job; more for a larger one.",
)
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), help="Where to keep it."
)
@click.option("--block-seconds", type=click.FloatRange(0.05, 60), default=0.4, show_default=True)
@json_lines
def up(
    providers: int,
    cheat: str,
    job: str | None,
    served: Path | None,
    watcher: bool,  # noqa: FBT001 - click passes it
    leaf: str | None,
    precision: str,
    arithmetic: str,
    steps: int,
    commit_blocks: int,
    folder: Path | None,
    block_seconds: float,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> int:
    """Start a court on loopback, every party a process of its own, and a page that shows it.

    A client posts a job, sees it to its end, and fetches and verifies its result. Where a verifier
    decides, it is started, too. Then the net stays until Control-C or SIGTERM, unless --job was
    given. Without --folder nothing is kept.
    """
    from moot.contracts.reasons import LeafMode  # noqa: PLC0415 - likewise
    from moot.offchain.chain.accounts.journal import FOLDER_VARIABLE  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.testnet import Testnet  # noqa: PLC0415 - likewise
    from moot.offchain.providers.cheats.reading import parse_cheat  # noqa: PLC0415 - imports numpy
    from moot.offchain.providers.setting import choose_leaf  # noqa: PLC0415 - likewise

    status, is_ruled = 0, choose_leaf(leaf, arithmetic) is LeafMode.OPERATOR
    if cheat:
        parse_cheat(cheat)
    with party(None, {}, as_json=as_json) as (_, tell), ExitStack() as kept:
        if folder is None:
            folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="moot-testnet-")))
            os.environ.setdefault(FOLDER_VARIABLE, str(folder / "accounts"))
        net = kept.enter_context(Testnet(folder.resolve(), MOOT, tell, block_seconds, arithmetic))
        if served is not None:
            play_answers(net, tell, served.resolve(), providers, cheat or LIE)
            tell("ready", "ready; the net stays until it is interrupted")
            net.processes["node"].wait()
            raise MootError("the node of the net has ended")
        if is_ruled:
            net.name_verifier()
        for number in range(providers):
            own = cheat if number == 0 else ""
            net.add_provider(f"provider-{number + 1}", cheat=own)
        if watcher:
            net.add_party("watcher", ("watch",))
        urls = net.await_results(providers + int(watcher), START_S)
        if is_ruled:
            net.add_verifier(urls)
            net.await_results(1, START_S)
        page = net.show_court()
        tell("court", f"{page} shows the court", url=page)
        if job or providers:
            about: tuple[str, ...] = ("--program", job or DEFAULT_JOB, "--precision", precision)
            about = (*about, "--steps", str(steps))
            about += ("--leaf", "operator" if is_ruled else "scalar")
            about += ("--commit-blocks", str(commit_blocks))
            status = _play(net, tell, about, urls)
        if job is None and not status:
            client = net.folder / "client.toml"
            tell("ready", f"ready; the client's settings are in {client}", config=str(client))
            net.processes["node"].wait()
            raise MootError("the node of the net has ended")
    return status


@testnet.command(short_help="Make a key with money and a file of settings for a further party.")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="That of a net which is up.",
)
def add(name: str, folder: Path) -> None:
    """Make NAME.toml in the folder of a net, with a funded key, for a party started by hand.

    It fits `moot provider run`, `moot watch`, `moot verifier run`, `moot serve`, and the verbs of
    `moot client`, `moot service` and `moot receipt`; these need a service, which `moot service
    deploy` makes.
    """
    from moot.offchain.parties.testnet import configure, read_common  # noqa: PLC0415 - imports the chain

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise UsageError(f"{name!r:.60} is no name for files; use letters, digits, - and _")
    folder = folder.resolve()
    click.echo(configure(folder, read_common(folder), name))


def _play(net: "Testnet", tell: "Lines", job: tuple[str, ...], urls: list[str]) -> int:
    """Let the client post a job, see it to its end, and fetch its result."""
    for verb in (
        ("post", *job),
        ("await", "0"),
        ("fetch", "0", str(net.folder / "result"), "--results", ",".join(urls)),
    ):
        tell("client", f"[client] moot client {' '.join(verb)}")
        command = (*MOOT, "client", *verb, "--config", str(net.folder / "client.toml"))
        process = net.start("client", command)
        assert process.stdout is not None
        for line in process.stdout:
            tell("client", f"[client] {line.rstrip()}")
        if status := process.wait():
            return status
    return 0
