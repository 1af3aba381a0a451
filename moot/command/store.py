"""`moot store`: data that strangers share, by their roots."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from moot.command import options
from moot.command.ending import until_terminated
from moot.command.groups import Group
from moot.offchain.errors import NotInStore, UsageError, WrongContent

if TYPE_CHECKING:
    from moot.offchain.datastore.store import DataStore

WRONG = 3
_DIGITS = 64


@click.group(cls=Group, short_help="Share programs, states and batches by their roots.")
def store() -> None:
    """Share programs, states and batches by their roots.

    A store is a folder, the address of one that `moot store serve` serves, or an address that
    fsspec knows, such as s3://bucket/folder. Nothing that comes from it is believed.
    """


@store.command(short_help="Serve a folder over HTTP.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="The port; 0 for any that is free.",
)
@options.as_json
def serve(
    folder: Path,
    host: str,
    port: int,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> None:
    """Serve FOLDER over HTTP, to be read only, until this is interrupted or terminated.

    Prints the address. Of the folder only what has a root is served: no notes, no links. The folder
    of a provider's job is refused.
    """
    from moot.offchain.datastore.server import Server  # noqa: PLC0415 - imports numpy

    with Server(folder, host, port) as server, until_terminated():
        if as_json:
            click.echo(json.dumps({"url": server.url, "folder": str(folder)}))
        else:
            click.echo(f"serving {folder} at {server.url}")
        sys.stdout.flush()
        server.serve_forever()


@store.command("list", short_help="List the objects of a store.")
@click.argument("url")
@options.as_json
def list_(url: str, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """List the objects of the store at URL, with their sizes as the store says."""
    with options.opened_store(url) as opened:
        found = list(opened.list())
    if as_json:
        objects = [{"name": name, "bytes": size} for name, size in found]
        click.echo(json.dumps({"url": url, "objects": objects}, indent=2))
        return
    for name, size in found:
        click.echo(f"{name} {size:>14,}")


@store.command(short_help="Fetch a state, a dataset or a tensor.")
@click.argument("url")
@click.argument("root")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@options.as_json
def get(url: str, root: str, folder: Path, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Fetch what has ROOT from the store at URL into FOLDER, which is a store itself.

    That is a state, a dataset or a tensor. It is verified against the root while it comes. What
    breaks off goes on where it was.
    """
    digest = _parse_root(root)
    with options.opened_store(url, folder) as opened:
        _require_other(opened, folder)
        kind = _fetch(opened, digest)
    if as_json:
        click.echo(json.dumps({"kind": kind, "root": root, "folder": str(folder)}))
    else:
        click.echo(f"{kind} {root} is in {folder}")


@store.command(short_help="Verify all objects of a store.")
@click.argument("url")
@options.as_json
def verify(url: str, as_json: bool) -> int:  # noqa: FBT001 - click passes it
    """Verify every tensor and every list of roots in the store at URL against its root.

    Programs, rules and logs are verified by whoever has the job that they belong to. Exits with 3
    if something is not what its name says.
    """
    with options.opened_store(url) as opened:
        counts, wrong = _verify_all(opened)
    if as_json:
        click.echo(json.dumps({"url": url, "right": counts, "wrong": wrong}, indent=2))
    else:
        console = options.make_console()
        console.print(", ".join(f"{count} {kind}" for kind, count in counts.items()) + " are right")
        if wrong:
            table = Table("object", "problem", title=f"{len(wrong)} are wrong")
            for name, problem in wrong.items():
                table.add_row(name, problem)
            console.print(table)
    return WRONG if wrong else 0


def _parse_root(text: str) -> bytes:
    digits = text.removeprefix("0x")
    try:
        root = bytes.fromhex(digits)
    except ValueError:
        root = b""
    if len(digits) != _DIGITS or not root:
        raise UsageError(f"{text!r} is no root; write its {_DIGITS} hexadecimal digits")
    return root


def _require_other(opened: "DataStore", folder: Path) -> None:
    """Refuse to fetch from a folder of this machine: it is a store already."""
    if opened.is_local:
        raise UsageError(
            f"{opened.url} is a folder of this machine; use it as it is, or serve it to {folder}"
        )


def _fetch(opened: "DataStore", root: bytes) -> str:
    """Fetch what has a root, and return its kind."""
    from moot.offchain.datastore.objects import DATASETS, STATES  # noqa: PLC0415 - imports numpy

    for kind in (STATES, DATASETS):
        try:
            opened.fetch_list(kind, root)
        except NotInStore as error:
            if not error.name.startswith(f"{kind}/"):
                raise
        else:
            return kind.removesuffix("s")
    opened.fetch_tensors([root])
    return "tensor"


def _verify_all(opened: "DataStore") -> tuple[dict[str, int], dict[str, str]]:
    """Return how many objects of each kind are right, and what is wrong with the others."""
    from moot.offchain.datastore.objects import HASH_ROOTS, TENSORS  # noqa: PLC0415 - imports numpy
    from moot.offchain.errors import StoreError  # noqa: PLC0415 - likewise

    counts: dict[str, int] = {}
    wrong: dict[str, str] = {}
    for name, size in opened.list():
        kind, _, digits = name.partition("/")
        if kind != TENSORS and kind not in HASH_ROOTS:
            continue
        try:
            opened.verify(kind, bytes.fromhex(digits), size)
        except WrongContent as error:
            wrong[name] = error.problem
        except StoreError as error:
            wrong[name] = str(error)
        else:
            counts[kind] = counts.get(kind, 0) + 1
    return counts, wrong
