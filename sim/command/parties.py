"""What the verbs of parties share: their settings as options, their lines, and their end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from offchain.parties.events import Lines
from offchain.parties.settings import PREFIX, Settings, list_keys, read_settings
from sim.command.ending import until_terminated
from sim.command.options import Command

json_lines = click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")


def setting_options(*names: str) -> Callable[[Command], Command]:
    """Return options for these settings (for all of them without any), and the file's."""

    def add(command: Command) -> Command:
        for field in reversed([*list_keys()]):
            if names and field.name not in names:
                continue
            option = "--" + field.name.replace("_", "-")
            shown = f"[default: {field.default}]" if field.default else ""
            about = f"Or {PREFIX}{field.name.upper()}, or `{field.name}` in the file. {shown}"
            command = click.option(option, field.name, help=about.strip())(command)
        return click.option(
            "--config", type=click.Path(path_type=Path, dir_okay=False), help="A TOML file."
        )(command)

    return add


@contextmanager
def party(
    config: Path | None,
    given: dict[str, Any],
    *,
    as_json: bool,
) -> Iterator[tuple[Settings, Lines]]:
    """Read the settings of a party, which ends cleanly on SIGTERM."""
    settings = read_settings(config, given)
    with until_terminated():
        yield settings, Lines(as_json=as_json)
