"""`moot referee`: deploy a referee for an arithmetic, and recognise one."""

import json
from pathlib import Path
from typing import Any

import click

from moot.command import options
from moot.command.groups import Group
from moot.command.parties import json_lines, party, setting_options

UNKNOWN = 3


@click.group(cls=Group, short_help="Deploy a referee for an arithmetic, and recognise one.")
def referee() -> None:
    """Deploy the contract that referees disputes, and recognise one that stands."""


@referee.command(short_help="Deploy the referee of an arithmetic.")
@setting_options("chain", "arithmetic", "key", "password_from", "max_fee_gwei", "confirmations")
@json_lines
def deploy(config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click
    """Deploy the referee of programs in --arithmetic, and the contracts that it asks.

    It belongs to nobody: no account can change it. Programs in `logged` take that of `ordered`, and
    a verifier.
    """
    from moot.offchain.parties.referees import deploy as deploy_one  # noqa: PLC0415 - the chain

    with party(config, given, as_json=as_json) as (settings, tell):
        address = deploy_one(settings, tell)
        line = f"the referee of programs in {settings.arithmetic} is {address}"
        tell("deployed", line, referee=address, arithmetic=settings.arithmetic)


@referee.command(short_help="Say which programs a referee decides.")
@click.argument("address")
@click.option("--chain", required=True, help="The URL of a JSON-RPC node.")
@options.as_json
def check(address: str, chain: str, as_json: bool) -> int:  # noqa: FBT001 - click passes it
    """Compare the code at ADDRESS with this version's, and say which programs it decides.

    Exits with 0 when it is a referee of this version, 3 when it is not.
    """
    from moot.offchain.chain import connect  # noqa: PLC0415 - imports the chain
    from moot.offchain.parties.referees import recognise  # noqa: PLC0415 - likewise

    place = options.parse_address(address, "ADDRESS")
    with connect(chain) as opened:
        found = recognise(opened, place)
    result = {"referee": place, "decides": found.decides, "rules": found.rules}
    if as_json:
        click.echo(json.dumps(result | {"problem": found.problem}, indent=2))
    elif found.problem is None:
        click.echo(f"{place} is a referee of this version")
        click.echo(f"  decides by itself       {', '.join(found.decides)}")
        click.echo(f"  with a verifier         {', '.join(found.rules)}")
    else:
        click.echo(f"{place} is no referee of this version: {found.problem}")
    return UNKNOWN if found.problem else 0
