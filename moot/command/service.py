"""`moot service`: bonds that stand behind receipts, and balances that pay for answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moot.command import options
from moot.command.groups import Group
from moot.command.parties import json_lines, party, setting_options
from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    from moot.offchain.parties.events import Lines
    from moot.offchain.parties.services import ServiceContext

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)
ETHER = 10**18
_SETTINGS = ("chain", "service", "key", "password_from", "max_fee_gwei", "confirmations")

sending = setting_options(*_SETTINGS)
amount = click.argument("ether", type=click.FloatRange(0, 10**8, min_open=True))
provider_of = click.argument("provider")


@click.group(cls=Group, short_help="Bonds behind receipts, and balances that pay for answers.")
def service() -> None:
    """Bonds that stand behind receipts, and balances that pay for answers.

    A provider stakes a bond once; its receipts (`moot serve`) are backed by it. A client funds a
    balance with a provider, and signs vouchers, which the provider redeems.
    """


@service.command(short_help="Deploy a service for an arithmetic.")
@setting_options("chain", "arithmetic", "key", "password_from", "max_fee_gwei", "confirmations")
@json_lines
def deploy(config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Deploy a service for programs in --arithmetic, and the contract of its challenges.

    It belongs to nobody: no account can change it.
    """
    from moot.offchain.parties.services import deploy as deploy_one  # noqa: PLC0415 - the chain

    with party(config, given, as_json=as_json) as (settings, tell):
        address, challenges = deploy_one(settings, tell)
        line = f"the service is {address}, and its receipts are challenged in {challenges}"
        tell("deployed", line, service=address, challenges=challenges)


@service.command(short_help="Show how a provider stands.")
@provider_of
@click.option("--client", help="Show this client's balance with the provider, too.")
@setting_options("chain", "service")
@json_lines
def show(
    provider: str,
    client: str | None,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Show the bond of PROVIDER, what leaves it, and how many receipts were published."""
    account = _parse(provider, "PROVIDER")
    with _opened(config, given, as_json=as_json, signs=False) as (context, tell):
        found, bond = context.service, context.service.get_stake(account)
        about: dict[str, Any] = {
            "standing_wei": bond.standing_wei,
            "leaving_wei": bond.leaving_wei,
            "leaves_after": bond.last_block,
            "is_at_fault": bond.is_at_fault,
            "published": found.count_published(account),
        }
        line = f"a bond of {_show(bond.standing_wei)} stands"
        if bond.leaving_wei:
            line += f", {_show(bond.leaving_wei)} leave after block {bond.last_block}"
        line += ", and it is at fault: rely on none of its receipts" if bond.is_at_fault else ""
        if client is not None:
            payer = _parse(client, "--client")
            funds = found.get_funds(payer, account)
            about |= {
                "funds_wei": funds.standing_wei,
                "funds_leaving_wei": funds.leaving_wei,
                "redeemed_wei": found.get_redeemed(payer, account),
            }
            line += f"; the client's balance is {_show(funds.all_wei)}"
        tell("provider", line, provider=account, **about)


@service.command(short_help="Add to the bond behind your receipts.")
@amount
@sending
@json_lines
def stake(ether: float, config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Add ETHER to the bond that stands behind your receipts."""
    _send("stake", (), ether, config, given, as_json=as_json)


@service.command(short_help="Let a part of your bond leave.")
@amount
@sending
@json_lines
def unstake(ether: float, config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Let ETHER of your bond leave: it is liable for 50,400 blocks, then `take-stake` pays it."""
    _send("unstake", (options.to_wei(ether, "ETHER"),), 0, config, given, as_json=as_json)


@service.command("take-stake", short_help="Be paid what has left your bond.")
@sending
@json_lines
def take_stake(config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Be paid what has left your bond."""
    _send("take_stake", (), 0, config, given, as_json=as_json)


@service.command(short_help="Add to your balance with a provider.")
@provider_of
@amount
@sending
@json_lines
def fund(
    provider: str,
    ether: float,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Add ETHER to your balance with PROVIDER, which your vouchers pay from."""
    _send("fund", (_parse(provider, "PROVIDER"),), ether, config, given, as_json=as_json)


@service.command(short_help="Let a part of your balance leave.")
@provider_of
@amount
@sending
@json_lines
def defund(
    provider: str,
    ether: float,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Let ETHER of your balance with PROVIDER leave: vouchers take from it for 7,200 blocks."""
    account = _parse(provider, "PROVIDER")
    _send("defund", (account, options.to_wei(ether, "ETHER")), 0, config, given, as_json=as_json)


@service.command("take-funds", short_help="Be paid what has left your balance.")
@provider_of
@sending
@json_lines
def take_funds(
    provider: str,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Be paid what has left your balance with PROVIDER."""
    _send("take_funds", (_parse(provider, "PROVIDER"),), 0, config, given, as_json=as_json)


@service.command(
    short_help="Sign a voucher, which a provider redeems.",
    epilog="\b\nExamples:\n  moot service voucher 0x… 0.02 --config client.toml > voucher.json",
)
@provider_of
@amount
@sending
@options.as_json
def voucher(
    provider: str,
    ether: float,
    config: Path | None,
    as_json: bool,  # noqa: FBT001 - click passes it
    **given: Any,
) -> None:
    """Print a voucher for PROVIDER, as JSON: ETHER in all, with what earlier vouchers have paid.

    Nothing is sent. The last voucher is enough: give a higher one with each answer.
    """
    from moot.contracts.model.receipts import Voucher  # noqa: PLC0415 - imports eth_abi
    from moot.offchain.receipts.service import SignedVoucher  # noqa: PLC0415 - likewise

    del as_json
    account = _parse(provider, "PROVIDER")
    with _opened(config, given, as_json=True, signs=True) as (context, _):
        assert context.key is not None
        promised = Voucher(context.address, account, options.to_wei(ether, "ETHER"))
        made = SignedVoucher.make(context.service.domain, promised, context.key.sign_digest)
        click.echo(json.dumps(made.to_json()))


@service.command(short_help="Be paid by a voucher.")
@click.argument("file", type=FILE)
@sending
@json_lines
def redeem(file: Path, config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Be paid what the voucher in FILE promises you beyond what earlier ones have paid."""
    from moot.offchain.receipts.documents import read_json  # noqa: PLC0415 - imports eth_abi
    from moot.offchain.receipts.packed import require_same  # noqa: PLC0415 - likewise
    from moot.offchain.receipts.service import SignedVoucher  # noqa: PLC0415 - likewise

    found = SignedVoucher.from_json(read_json(file))
    with _opened(config, given, as_json=as_json, signs=True) as (context, tell):
        require_same(context.service.domain, found.domain, "voucher")
        own = found.voucher
        if own.provider != context.address:
            raise UsageError(f"the voucher is for {own.provider}, and your key's is another")
        args = (own.client, own.total_wei, found.signature)
        mined = context.service.transact("redeem", *args, sender=context.address)
        (event,) = (it for it in mined.events if it.name == "Redeemed")
        paid = int(event.args["amount_wei"])
        owed = own.total_wei - context.service.get_redeemed(own.client, own.provider)
        rest = f"; the balance had no more, and {_show(owed)} are owed" if owed else ""
        about = {"amount_wei": paid, "owed_wei": owed, "gas": mined.gas_used}
        tell("redeemed", f"{_show(paid)} were paid{rest}", **about)


@service.command(short_help="Publish the receipts of a book, so that no others have their numbers.")
@click.argument("book", type=FOLDER)
@sending
@json_lines
def publish(book: Path, config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Publish what is new in BOOK, the folder of receipts of `moot serve`.

    One transaction binds all of them: their digests, by number, are the leaves of a tree.
    """
    from moot.offchain.receipts.book import BookReader  # noqa: PLC0415 - imports eth_abi

    with _opened(config, given, as_json=as_json, signs=True) as (context, tell):
        first = context.service.count_published(context.address)
        receipts = [*BookReader(book).list_from(first)]
        if not receipts:
            tell("published", f"no receipt is new: {first} are published", count=0, first=first)
            return
        top = context.service.publish(receipts, first, context.address)
        count = len(receipts)
        several = f"receipts {first} to {first + count - 1} are published"
        line = f"receipt {first} is published" if count == 1 else several
        tell("published", line, count=count, first=first, root=f"0x{top.hex()}")


def _send(
    name: str,
    args: tuple[object, ...],
    ether: float,
    config: Path | None,
    given: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Make one call from the key's account, and tell what it has cost."""
    with _opened(config, given, as_json=as_json, signs=True) as (context, tell):
        value = options.to_wei(ether, "ETHER")
        mined = context.service.transact(name, *args, sender=context.address, value_wei=value)
        verb = name.replace("_", "-")
        tell(verb, f"{verb} is done, for {mined.gas_used:,} gas", gas=mined.gas_used)


@contextmanager
def _opened(
    config: Path | None, given: dict[str, Any], *, as_json: bool, signs: bool
) -> "Iterator[tuple[ServiceContext, Lines]]":
    from moot.offchain.parties.services import opened_service  # noqa: PLC0415 - imports the chain

    with (
        party(config, given, as_json=as_json) as (settings, tell),
        opened_service(settings, tell, signs=signs) as context,
    ):
        yield context, tell


def _parse(text: str, name: str) -> str:
    from eth_utils.address import to_checksum_address  # noqa: PLC0415 - slow to import

    return str(to_checksum_address(options.parse_address(text, name)))


def _show(wei: int) -> str:
    return f"{Decimal(wei) / ETHER:f} ETH"
