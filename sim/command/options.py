"""Options that several verbs share, and the progress that they show."""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from offchain.chain import Address
from offchain.errors import UsageError
from offchain.parties import settings
from offchain.parties.settings import MOST_ETHER
from offchain.programs.catalogue import NAMES, SIZES

if TYPE_CHECKING:
    from offchain.datastore.store import DataStore

MAX_SEED = 2**64 - 1

PROGRAM_HELP = f"{', '.join(NAMES)}, or path/to/file.py:function."
SIZE_HELP = f"{', '.join(SIZES)}: of an example."

PLAIN_WIDTH = 110
"""Columns of output that goes to a file or a pipe."""

Command = TypeVar("Command", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
seed = click.option(
    "--seed",
    type=click.IntRange(0, MAX_SEED),
    default=0,
    show_default=True,
    help="Source of all that is drawn.",
)
chain = click.option(
    "--chain",
    default="tester",
    show_default=True,
    help="`tester` (py-evm in this process) or the URL of a JSON-RPC node.",
)
precision = click.option(
    "--precision",
    default="fp32",
    show_default=True,
    help="fp32, or bf16: the model runs under torch.autocast, on bfloat16 numbers.",
)
trust_capture = click.option(
    "--trust-capture",
    is_flag=True,
    help="Take the program as it was captured: do not compare its first steps with eager torch.",
)


def program(default: str, size: str) -> Callable[[Command], Command]:
    """Return the options that say what is run."""

    def add(command: Command) -> Command:
        for option in (
            trust_capture,
            click.option(
                "--data",
                type=click.Path(path_type=Path),
                help="Text for language models (default: the standard library's source).",
            ),
            click.option("--inference", is_flag=True, help="One forward pass instead of training."),
            precision,
            click.option(
                "--size",
                default=size,
                show_default=True,
                help=SIZE_HELP,
            ),
            click.option(
                "--program",
                default=default,
                show_default=True,
                help=PROGRAM_HELP,
            ),
        ):
            command = option(command)
        return command

    return add


arithmetic = click.option(
    "--arithmetic",
    default="ordered",
    show_default=True,
    help="ordered (a sum rounds after every term), exact (once, at its end), or logged (once, as a "
    "log has it; the bounded verifier decides disputes).",
)
"""The option that says what the numbers of a program mean."""


def length(steps: int, checkpoint_every: int) -> Callable[[Command], Command]:
    """Return the options that say how long a task is."""

    def add(command: Command) -> Command:
        for option in (
            click.option(
                "--checkpoint-every",
                type=int,
                help="Steps from one committed state to the next "
                f"[default: {checkpoint_every}, or the number of steps].",
            ),
            click.option("--steps", default=steps, show_default=True, help="Steps of the task."),
        ):
            command = option(command)
        return command

    return add


def list_choices(title: str, about: Mapping[str, str]) -> str:
    """Return names and what they mean, below a title, in lines that click leaves as they are."""
    return "\n".join(["\b", title, *(f"  {name:<20} {words}" for name, words in about.items())])


def choose_interval(given: int | None, default: int, steps: int) -> int:
    """Return the steps between checkpoints: those asked for, or a default that fits."""
    return given if given is not None else max(1, min(default, steps))


def make_console(*, quiet: bool = False) -> Console:
    """Return the console for people: as wide as the terminal, and never too narrow for a move."""
    console = Console(quiet=quiet, highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


@contextmanager
def stores(kept: Path | None = None) -> Iterator[Path]:
    """Give the providers a directory for their stores: one to keep, or one that is cleared away."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="moot-") as directory:
        yield Path(directory)


@contextmanager
def opened_store(url: str, cache: Path | None = None) -> "Iterator[DataStore]":
    """Open a data store; what comes from elsewhere is kept in a folder, or cleared away."""
    from offchain.datastore.store import open_store  # noqa: PLC0415 - imports numpy

    with stores(cache) as folder:
        yield open_store(url, folder)


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Show bars on stderr while something slow goes on, when that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=quiet or not sys.stderr.isatty()
    ) as bars:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield report


def parse_address(text: str, option: str) -> Address:
    """Return an account's or a contract's address as the chain's port writes it."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{40}", text):
        raise UsageError(f"{option} {text} is not an address: 0x and 40 hexadecimal digits")
    return Address(text.lower())


def to_wei(ether: float, option: str) -> int:
    """Return an amount of ETH in wei."""
    if not 0 <= ether < MOST_ETHER:
        raise UsageError(f"{option} {ether} is not an amount of ETH")
    return settings.to_wei(ether)


def check_steps(steps: int, *, inference: bool) -> int:
    """Return the number of steps; inference has one."""
    if inference:
        return 1
    if steps < 1:
        raise UsageError(f"--steps {steps} is not a positive number")
    return steps
