"""The entry point: finds the verb, imports only what it needs, turns errors into one line."""

import gc
import io
import os
import select
import sys
import traceback
from contextlib import suppress
from importlib import import_module

import click

try:
    from moot.command.groups import Group, limit_integers
    from moot.offchain.errors import CaptureFault, MootError, UsageError
    from moot.offchain.text import clean
except ImportError as refusal:  # this process does not round to nearest
    sys.exit(f"moot: {refusal}")

LONGEST = 4_000
"""Characters of an error that are printed: what it names may be somebody else's."""
BAD_ARGUMENTS = 2
FAILED = 1
OUR_FAULT = 70
INTERRUPTED = 130
READER_GONE = 141

COLLECTED_OBJECTS = 100_000
"""New objects after which Python looks for cycles; after its own 700 it takes 2 s of a dispute."""

TRACEBACK = "MOOT_TRACEBACK"
"""The environment variable that asks for the tracebacks of errors."""
REPORT = f"set {TRACEBACK}=1 to see the whole traceback, and report it"
"""What to do about a fault of Moot."""

_VERBS = {
    "answers": "Ask what attacks on a simulated market bring, and what stops them.",
    "audit": "Run a claimed training again, and compare the bits.",
    "bench": "Measure ours beside stock torch: operators, training steps, hashing.",
    "check-cheat": "Try a cheat of your own before you dispute it.",
    "check-strategy": "Try a strategy of your own for simulated markets before you use it.",
    "client": "Post a job, see it to its end, and fetch its result.",
    "court": "Look at a court: jobs, claims, and how each dispute narrows.",
    "demo": "Watch a dispute, move by move, with a cheat somewhere inside a training step.",
    "dispute": "Play one dispute and print what was found, what it cost and who was paid.",
    "gas": "Measure what every call of a dispute costs, and what has changed.",
    "keys": "Make and list keystore files, in which the keys of accounts lie.",
    "learn": "Look for an attack on a market by learning.",
    "market": "Run a market once: simulated, or with every job for real.",
    "price": "Ask what a job should cost, and which terms leave no attack that pays.",
    "program": "Look at programs: what is captured, and how it is committed to.",
    "provider": "Check jobs, and take them.",
    "receipt": "Look at receipts of answers, and check them.",
    "referee": "Deploy the contract that referees disputes, and recognise one.",
    "replicate": "Train under two profiles, as on unlike hardware, and compare the bits.",
    "report": "Make one HTML file with plots of a market's results.",
    "serve": "Answer by a language model over HTTP, with receipts.",
    "service": "Bonds that stand behind receipts, and balances that pay for answers.",
    "store": "Share programs, states and batches by their roots.",
    "sweep": "Run a simulated market for many settings, in processes or on Ray.",
    "testnet": "Try the court on this machine, with every party a process of its own.",
    "train": "Train in a folder, and claim what has come out.",
    "verifier": "Rule on matches that stop at an operator.",
    "watch": "Run jobs again, say which claims are right, and bond one where none is.",
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
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"moot.command.{name}"), name)
        limit_integers(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Moot court for machine learning.

    Providers run a PyTorch program and put claims on a chain; a referee contract narrows a dispute
    between two claims down to one scalar operation, and computes that operation itself.

    \b
    Begin with:   moot demo
    Then try:     moot dispute --program gpt2 --cheat wrong-output:step=3 --json
    And markets:  moot market baseline
    """  # noqa: D301 - \b is click's mark for lines that stay as they are


def main() -> None:
    """Run the command; exit 2 for bad arguments, 1 when something failed, else the verb's own.

    An interrupted command exits with 130, one whose reader went away with 141, and one that fails
    by a fault of ours with 70.
    """
    gc.set_threshold(COLLECTED_OBJECTS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name need not fit the encoding
    try:
        with cli.make_context("moot", sys.argv[1:]) as context:  # click's own main has its own ends
            status = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        status = _report("interrupted", INTERRUPTED)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary: no traceback leaves it
        status = _explain(error)
    gc.freeze()  # else Python looks for cycles among all objects at its exit, which takes seconds
    sys.exit(status if isinstance(status, int) else 0)


def _explain(error: BaseException) -> int:
    """Print what an exception means, and return the status to exit with."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        error = UsageError.unknown("option", error.option_name, error.possibilities)
    if isinstance(error, click.ClickException):
        return _report(error.format_message(), BAD_ARGUMENTS)
    if isinstance(error, MootError):
        return _explain_refusal(error)
    from moot.command.blame import explain_fault, explain_user  # noqa: PLC0415 - seldom needed

    users = explain_user(error)
    if users is not None:
        return _report(users, FAILED)
    if isinstance(error, OSError):
        return _explain_system(error)
    return _report(f"{explain_fault(error)}; {REPORT}", OUR_FAULT)


def _explain_refusal(error: MootError) -> int:
    if isinstance(error, CaptureFault):
        return _report(f"{error}; {REPORT}", OUR_FAULT)
    return _report(str(error), BAD_ARGUMENTS if isinstance(error, UsageError) else FAILED)


def _explain_system(error: OSError) -> int:
    """Print what the system says, but to a reader who went away."""
    if isinstance(error, ConnectionError | TimeoutError) and not _is_reader_gone():
        return _report(f"a connection was lost: {error.strerror or error}", FAILED)
    _drop_output()
    if isinstance(error, BrokenPipeError):
        return READER_GONE
    subject = error.filename or "cannot write the output"
    return _report(f"{subject}: {error.strerror or error}", FAILED)


def _is_reader_gone() -> bool:
    """Whether nobody reads what is printed; a pipe may as well have been somebody else's."""
    streams = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # none, closed, or no descriptor
            streams.register(stream.fileno(), 0)
    return bool(streams.poll(0))


def _drop_output() -> None:
    """Let what is left of the output go nowhere, so that Python need not complain at its exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(message: str, status: int) -> int:
    """Print one line on stderr, if it takes one."""
    with suppress(OSError):
        click.echo("moot: " + clean(message, LONGEST), err=True)
    return status
