"""Groups of commands: what `moot`, `moot bench`, `moot gas` and `moot program` have in common."""

import click

from offchain.errors import UsageError

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


def limit_integers(command: click.Command) -> None:
    """Let a command and those below it refuse whole numbers that 64 bits do not hold."""
    for parameter in command.params:
        kind = parameter.type
        if kind is click.INT:
            parameter.type = click.IntRange(-MAX_INTEGER - 1, MAX_INTEGER)
        elif isinstance(kind, click.IntRange) and kind.max is None:
            parameter.type = click.IntRange(kind.min, MAX_INTEGER)
    if isinstance(command, click.Group):
        for child in command.commands.values():
            limit_integers(child)
