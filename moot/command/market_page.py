"""`moot market --watch`: a page about a market that runs, served on loopback."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moot.command.ending import catching_end
from moot.offchain.errors import UsageError

if TYPE_CHECKING:
    from moot.sim.economy.config import Config

PORT = 8751
"""Where the page is, unless it is told otherwise."""


def check_watch(output: Path | None, port: int | None, *, is_watched: bool) -> None:
    """Refuse options that do not go together.

    A run that a slider may end at any time leaves no tables.
    """
    if is_watched and output is not None:
        raise UsageError(
            f"--watch leaves no tables in {output}; give --watch or --output: the page says which "
            "--set makes the same market"
        )
    if port is not None and not is_watched:
        raise UsageError("--port is where --watch listens; give both, or neither")


def show_live(name: str, config: "Config", port: int, *, as_json: bool) -> None:
    """Serve the page of a market until Control-C or SIGTERM.

    Args:
        name: of the configuration.
        config: what is played first.
        port: to listen at; 0 for any that is free.
        as_json: whether the address, and the token of requests, are printed as JSON.
    """
    from moot.sim.live.site import serve  # noqa: PLC0415 - imports the page

    with catching_end() as stopped, serve(name, config, port) as (url, token):
        if as_json:
            click.echo(json.dumps({"url": url, "token": token}))
        else:
            click.echo(f"{url} shows the market; Control-C ends it")
        stopped.wait()
