"""The entry point: finds the verb, imports only what it needs, turns errors into one line."""

import sys
from importlib import import_module

import click

try:
    from offchain.errors import MootError, UsageError
    from sim.command.groups import Group
except ImportError as refusal:  # this process does not round to nearest
    sys.exit(f"moot: {refusal}")

BAD_ARGUMENTS = 2
FAILED = 1

_VERBS = {
    "bench": "Measure ours beside stock torch: operators, training steps, hashing.",
    "demo": "Watch a dispute, move by move, with a cheat somewhere inside a training step.",
    "dispute": "Play one dispute and print what was found, what it cost and who was paid.",
    "gas": "Measure what every call of a dispute costs, and what has changed.",
    "market": "Run a market of honest and dishonest providers, every job for real.",
    "program": "Look at programs: what is captured, and how it is committed to.",
}


class _LazyGroup(Group):
    """Imports a verb's module when the verb is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs."""
        del ctx
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb's command."""
        del ctx
        if cmd_name not in _VERBS:
            return None
        module = import_module(f"sim.command.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl(list(_VERBS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Moot court for machine learning.

    Providers run a PyTorch program and put claims on a chain; a referee contract narrows a dispute
    between two claims down to one scalar operation, and computes that operation itself.

    \b
    Begin with:   moot demo
    Then try:     moot dispute --program gpt2 --cheat wrong-output:step=3 --json
    """  # noqa: D301 - \b is click's mark for lines that stay as they are


def main() -> None:
    """Run the command; exit 2 for bad arguments, 1 when something failed, else the verb's own."""
    try:
        status = cli(prog_name="moot", standalone_mode=False)
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    except click.ClickException as error:
        status = _report(error.format_message(), BAD_ARGUMENTS)
    except UsageError as error:
        status = _report(str(error), BAD_ARGUMENTS)
    except MootError as error:
        status = _report(str(error), FAILED)
    except (KeyboardInterrupt, click.Abort):
        status = _report("interrupted", 130)
    sys.exit(status if isinstance(status, int) else 0)


def _report(message: str, status: int) -> int:
    """Print one line on stderr."""
    click.echo("moot: " + " ".join(message.split()), err=True)
    return status
