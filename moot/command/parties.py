"""What the verbs of parties share: their settings as options, their lines, and their end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from moot.command.ending import until_terminated
from moot.command.options import Command, announce
from moot.offchain.parties.events import Lines
from moot.offchain.parties.settings import PREFIX, Settings, describe_keys, list_keys, read_settings

CONFIG_HELP = (
    "A TOML file with settings: `max_fee_gwei = 30` stands for --max-fee-gwei 30, and so does the "
    f"variable {PREFIX}MAX_FEE_GWEI."
)

json_lines = click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")


def setting_options(*names: str) -> Callable[[Command], Command]:
    """Return options for these settings (for all of them without any), and the file's."""
    about = describe_keys()

    def add(command: Command) -> Command:
        for field in reversed([*list_keys()]):
            if names and field.name not in names:
                continue
            option = "--" + field.name.replace("_", "-")
            shown = f"[default: {field.default}]" if field.default else ""
            command = click.option(option, field.name, help=f"{about[field.name]} {shown}")(command)
        return click.option(
            "--config", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP
        )(command)

    return add


@contextmanager
def party(
    config: Path | None,
    given: dict[str, Any],
    *,
    as_json: bool,
) -> Iterator[tuple[Settings, Lines]]:
    """Read the settings of a party, which ends cleanly on SIGTERM, and say what computes."""
    settings = read_settings(config, given)
    if "backend" in given:
        announce_settings(settings)
    with until_terminated():
        yield settings, Lines(as_json=as_json)


def announce_settings(settings: Settings) -> None:
    """Say on stderr what computes by some settings.

    Raises:
        UsageError: there is no such backend or arithmetic, or it does not compute the other.
        DeviceError: the backend is not here.
    """
    from moot.offchain.arithmetic.table import find_arithmetic  # noqa: PLC0415 - imports numpy
    from moot.offchain.backends.table import describe_backend  # noqa: PLC0415 - likewise

    announce(describe_backend(settings.backend, find_arithmetic(settings.arithmetic)))
