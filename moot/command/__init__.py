"""The command `moot`: one verb a thing to do, `--json` on all of them."""

from moot.command.main import main

__all__ = ["main"]
