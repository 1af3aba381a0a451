"""`moot receipt`: look at receipts of answers, check them, and take them to the chain."""

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from moot.command import options
from moot.command.groups import Group

if TYPE_CHECKING:
    from moot.offchain.receipts.packed import SignedReceipt

FILE = click.Path(path_type=Path, dir_okay=False)
UNSOUND = 3


@click.group(cls=Group, short_help="Look at receipts of answers, and check them.")
def receipt() -> None:
    """Receipts: signed terms and claims of answers, which anybody may take to the chain.

    FILE has a receipt as `moot serve` gives it: JSON, the text of the header, or the packed bytes.
    """


@receipt.command(
    short_help="Show what a receipt says, and who has signed it.",
    epilog="\b\nExamples:\n  moot receipt show answer.json\n  moot receipt show answer.json --json",
)
@click.argument("file", type=FILE)
@options.as_json
@click.pass_context
def show(context: click.Context, file: Path, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Show the receipt in FILE: its terms, its claim, and what backs it.

    It ends with 3 if no challenge of it could be decided. A receipt that is not signed by the
    provider that it names is refused.
    """
    from moot.contracts.model.receipts import is_sound  # noqa: PLC0415 - imports much
    from moot.offchain.receipts.documents import read_receipt  # noqa: PLC0415 - likewise

    signed = read_receipt(file)
    sound = is_sound(signed.receipt)
    shown = _list_fields(signed)
    if as_json:
        click.echo(json.dumps({**shown, "is_sound": sound}))
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in shown.items():
            table.add_row(name.replace("_", " "), str(value))
        options.make_console().print(table)
        if not sound:
            click.echo("No challenge of this receipt could be decided: do not rely on it.")
    context.exit(0 if sound else UNSOUND)


def _list_fields(signed: "SignedReceipt") -> dict[str, str | int]:
    """Return what a receipt says by name: numbers, and all else as text."""
    receipt, domain = signed.receipt, signed.domain
    shown: dict[str, str | int] = {
        "digest": f"0x{signed.digest.hex()}",
        "chain": domain.chain_id,
        "service": domain.service,
    }
    for field in fields(receipt):
        value = getattr(receipt, field.name)
        shown[field.name] = f"0x{value.hex()}" if isinstance(value, bytes) else value
    return {**shown, "open_wei": receipt.open_wei}
