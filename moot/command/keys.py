"""`moot keys`: keystore files, in which the keys of accounts lie under passwords."""

import json
import sys
from pathlib import Path

import click

from moot.command import options
from moot.command.groups import Group

FILE = click.Path(path_type=Path, dir_okay=False)

password_from = click.option(
    "--password-from",
    metavar="file:PATH|env:NAME",
    help="Where the password is [default: it is asked for on the terminal].",
)


@click.group(cls=Group, short_help="Make and list keystore files, the keys of accounts.")
def keys() -> None:
    """Keystore files, in which the keys of accounts lie under passwords."""


@keys.command(short_help="Make a key, in a new keystore file.")
@click.argument("file", type=FILE)
@password_from
@options.as_json
def new(file: Path, password_from: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Make a key, and write it to the new keystore FILE, which only you may read.

    Neither the key nor the password is ever shown. Whoever loses either loses the account.
    """
    from moot.offchain.chain.accounts.keystore import (  # noqa: PLC0415 - imports the chain
        create_keystore,
        read_password,
    )
    from moot.offchain.errors import UsageError  # noqa: PLC0415 - likewise

    if file.exists():
        raise UsageError(f"{file} exists already; choose another name")
    if password_from is None and sys.stdin.isatty():
        password = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = read_password(password_from)
    address = create_keystore(file, password)
    click.echo(json.dumps({"address": address, "file": str(file)}) if as_json else address)


@keys.command(short_help="Show the address of a keystore file.")
@click.argument("file", type=FILE)
@click.option("--check", is_flag=True, help="Open it with its password, and compare.")
@password_from
@options.as_json
def address(
    file: Path,
    check: bool,  # noqa: FBT001 - click passes it
    password_from: str | None,
    as_json: bool,  # noqa: FBT001 - likewise
) -> None:
    """Show the address of the keystore FILE."""
    from moot.offchain.chain.accounts.keystore import (  # noqa: PLC0415 - imports the chain
        KeyAccount,
        find_exposure,
        read_address,
        read_password,
    )

    if line := find_exposure(file):
        click.echo(f"moot: {line}", err=True)
    if check or password_from is not None:
        found = KeyAccount.open(file, read_password(password_from)).address
    else:
        found = read_address(file)
    click.echo(json.dumps({"address": found, "file": str(file)}) if as_json else found)


@keys.command("list", short_help="List the keystore files of a folder.")
@click.argument(
    "folder", type=click.Path(path_type=Path, file_okay=False, exists=True), default=Path()
)
@options.as_json
def list_(folder: Path, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """List the keystore files in FOLDER, with their addresses."""
    from moot.offchain.chain.accounts.keystore import (  # noqa: PLC0415 - imports the chain
        find_exposure,
        read_address,
    )
    from moot.offchain.errors import KeystoreError  # noqa: PLC0415 - likewise

    found: dict[str, str] = {}
    for path in sorted(it for it in folder.iterdir() if it.is_file()):
        try:
            found[path.name] = read_address(path)
        except KeystoreError:
            continue
        if line := find_exposure(path):
            click.echo(f"moot: {line}", err=True)
    if as_json:
        click.echo(json.dumps({"keystores": found}, indent=2))
        return
    for name, shown in found.items():
        click.echo(f"{shown}  {name}")
