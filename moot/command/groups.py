"""Groups of commands: what `moot`, `moot bench`, `moot gas` and `moot program` have in common."""

from typing import Any

import click
from click.types import IntParamType

from moot.offchain.errors import UsageError

MAX_INTEGER = 2**63 - 1
"""The largest whole number that an option takes, unless it says another."""


class Group(click.Group):
    """A group that prints its help when nothing follows it, and suggests what was meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help, and end with status 0, when there are no arguments."""
        if not args:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for.

        Raises:
            UsageError: there is none of that name.
        """
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            raise UsageError.unknown(f"command of {ctx.command_path}:", args[0], known)
        return super().resolve_command(ctx, args)


class _Limited(click.ParamType[int]):
    """A whole number of 64 bits, whose bounds are left out of the help text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not -MAX_INTEGER - 1 <= number <= MAX_INTEGER:
            self.fail(f"{number} does not fit into 64 bits.", param, ctx)
        return number


class _Integer(_Limited, IntParamType):
    pass


class _Range(_Limited, click.IntRange):
    name = "integer"


def limit_integers(command: click.Command) -> None:
    """Let a command and those below it refuse whole numbers that 64 bits do not hold.

    A word where a number of a range belongs is then no integer, and not no "integer range".
    """
    for parameter in command.params:
        kind = parameter.type
        if isinstance(kind, click.IntRange | click.FloatRange):
            kind.name = kind.name.removesuffix(" range")
        if kind is click.INT:
            parameter.type = _Integer()
        elif isinstance(kind, click.IntRange) and kind.max is None:
            parameter.type = _Range(kind.min)
    if isinstance(command, click.Group):
        for child in command.commands.values():
            limit_integers(child)
