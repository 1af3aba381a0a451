"""Groups of commands: what `moot`, `moot bench`, `moot gas` and `moot program` have in common."""

import click

from offchain.errors import UsageError


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
