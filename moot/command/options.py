"""Options that several verbs share, and the progress that they show."""

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from moot.offchain.chain import Address
from moot.offchain.errors import UsageError
from moot.offchain.parties import settings
from moot.offchain.parties.settings import MOST_ETHER
from moot.offchain.programs.catalogue import FOLDER, NAMES, SIZES

if TYPE_CHECKING:
    from moot.offchain.datastore.store import DataStore
    from moot.offchain.providers.batches import Choice
    from moot.sim.experiments.values import Value

MAX_SEED = 2**64 - 1

RUNS_HERE = "whose code runs on this machine, with all that you may do"
PROGRAM_HELP = (
    f"{', '.join(NAMES)}; {FOLDER}FOLDER, a checkpoint of the transformers library; or "
    f"path/to/file.py:function (or :recipe, or :trainer), {RUNS_HERE}."
)
SIZE_HELP = f"{', '.join(SIZES)}: of an example, or of a checkpoint's batches."

PLAIN_WIDTH = 110
"""Columns of output that goes to a file or a pipe."""

COMPUTING = "computing on "
"""The beginning of the line that says what computes."""

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
    help="fp32; bf16: the model runs under torch.autocast, on bfloat16 numbers; int8: linear "
    "layers have int8 weights, for inference.",
)
trust_capture = click.option(
    "--trust-capture",
    is_flag=True,
    help="Take the program as it was captured: do not compare its first steps with eager torch.",
)


backend = click.option(
    "--backend",
    default="cpu",
    show_default=True,
    help="What computes: cpu, cuda (an NVIDIA device), or cuda-emulator (a device's kernels on the "
    "processor, slowly). Results do not depend on it.",
)
engine = click.option(
    "--engine",
    default="own",
    show_default=True,
    help="What computes in binary64, in `exact` and `logged`: own, numpy, torch, cublas, or "
    f"path/to/file.py:Class, {RUNS_HERE}. It is tried first.",
)
workers = click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes among which the batches of honest runs are shared out.",
)


def announce(computer: str) -> None:
    """Say on stderr what computes, before it does."""
    click.echo(f"{COMPUTING}{computer}", err=True)


def warn(sentences: Iterable[str]) -> None:
    """Say on stderr what did not happen as it was asked for, a line each."""
    for sentence in sentences:
        click.echo(f"moot: warning: {sentence}", err=True)


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


DATASET = ("dataset", "take", "shuffle", "order", "drop_last", "first_step")
"""Options that say how batches are made of a dataset."""


def dataset(command: Command) -> Command:
    """Add the options that say how batches are made of a dataset."""
    for option in (
        click.option(
            "--first-step",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="Steps of the same order that came before, in other jobs.",
        ),
        click.option(
            "--drop-last",
            is_flag=True,
            help="Leave out an epoch's last rows, if they fill no step.",
        ),
        click.option(
            "--order",
            type=click.Path(path_type=Path, dir_okay=False),
            help="A text file of the rows' numbers, from 0 on, in the order in which steps take "
            "them; it begins anew where it ends.",
        ),
        click.option(
            "--shuffle",
            type=click.IntRange(0, MAX_SEED),
            help="Shuffle the rows with this seed, each epoch anew; else they stand as they do.",
        ),
        click.option(
            "--take",
            multiple=True,
            metavar="INPUT=TENSOR[@ROW|@step]",
            help="What an input of the program takes, if not the tensor of its name: rows of a "
            "tensor, from the ROW-th of the step's on; or, with @step, one row for each step.",
        ),
        click.option(
            "--dataset",
            type=click.Path(path_type=Path, dir_okay=False),
            help="A safetensors file of which the batches are made: rows of its tensors. It is "
            "published once, with the rule of the order, instead of all batches.",
        ),
    ):
        command = option(command)
    return command


def choose_dataset(given: dict[str, Any]) -> "Choice | None":
    """Take the options of a dataset out of what was given, and return the choice that they make.

    Raises:
        UsageError: they do not fit each other, or a file is not as it should be.
    """
    path, take, seed, order, drop_last, first_step = (given.pop(name) for name in DATASET)
    if path is None:
        if take or seed is not None or order is not None or drop_last or first_step:
            named = ", ".join("--" + name.replace("_", "-") for name in DATASET[1:])
            raise UsageError(f"{named} are about a --dataset; give one, or leave them out")
        return None
    from moot.offchain.datastore.columns import open_safetensors  # noqa: PLC0415 - imports numpy
    from moot.offchain.providers.batches import Choice  # noqa: PLC0415 - likewise

    takes = {}
    for words in take:
        name, _, tensor = words.partition("=")
        if not tensor or name in takes:
            raise UsageError(f"--take {words} is not INPUT=TENSOR, or the input is there twice")
        takes[name] = tensor
    listed = None if order is None else read_rows(order)
    return Choice(open_safetensors(path), takes, seed, listed, drop_last, first_step)


def read_rows(path: Path) -> list[int]:
    """Return the numbers in a text file, which white space parts."""
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path} cannot be read as text: {error}") from error
    wrong = next((word for word in words if not word.isdecimal()), None)
    if wrong is not None:
        raise UsageError(f"{wrong[:40]!r} in {path} is no row's number; they begin with 0")
    return [*map(int, words)]


leaf = click.option(
    "--leaf",
    help="Who decides: scalar (the contract computes one operation) or operator (the bounded "
    "verifier does)  [default: scalar, or operator where no contract computes the arithmetic].",
)

arithmetic = click.option(
    "--arithmetic",
    default="ordered",
    show_default=True,
    help="ordered (a sum rounds after every term), exact (once, at its end), logged (once, as a "
    "log has it; the bounded verifier decides disputes), or hopper or ampere (products of bfloat16 "
    "are what these tensor cores compute; with --precision bf16).",
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


class _Console(Console):
    """A console on which texts of others change nothing but what is read.

    They have no markup unless a call says so, and no characters that a terminal obeys.
    """

    def render_str(self, text: str, **given: Any) -> Text:
        """Return a string as it is rendered."""
        kept = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
        return super().render_str(kept, **given)

    def on_broken_pipe(self) -> None:
        """Let the command end as it does wherever its reader goes away."""
        raise BrokenPipeError


def make_console(*, quiet: bool = False) -> Console:
    """Return the console for people: as wide as the terminal, and never too narrow for a move."""
    console = _Console(quiet=quiet, highlight=False, markup=False)
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
    """Open a data store; what comes from elsewhere is kept in a folder, or cleared away.

    A folder that is made for it is gone again where something fails before it has an object.
    """
    from moot.offchain.datastore.names import KINDS  # noqa: PLC0415 - imports numpy
    from moot.offchain.datastore.places import find_folder  # noqa: PLC0415 - likewise
    from moot.offchain.datastore.store import open_store  # noqa: PLC0415 - likewise

    own = find_folder(url)
    is_new = own is not None and not Path(own).exists()
    with stores(cache) as folder:
        store = open_store(url, folder)
        try:
            yield store
        except BaseException:
            place = store.disk.path
            objects = (path for kind in KINDS for path in (place / kind).rglob("*"))
            if is_new and not any(path.is_file() for path in objects):
                shutil.rmtree(place, ignore_errors=True)
            raise


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


def read_settings(given: Sequence[str], otherwise: str) -> "dict[str, Value]":
    """Return the values that `--set` gives, one for each key.

    Args:
        given: `KEY=VALUE`.
        otherwise: says what to do about a key that has several.

    Raises:
        UsageError: one has several, or is written otherwise.
    """
    from moot.sim.experiments.values import parse_varied  # noqa: PLC0415 - imports pyarrow

    varied = parse_varied(given)
    for one in varied:
        if len(one.values) > 1:
            raise UsageError(f"--set {one.key} has several values here; {otherwise}")
    return {one.key: one.values[0] for one in varied}


def parse_adapters(adapters: "Sequence[str]") -> dict[str, Path]:
    """Return the folders of adapters by their names, as --adapter gives them."""
    found: dict[str, Path] = {}
    for text in adapters:
        name, _, folder = text.partition("=")
        if not name or not folder or name in found:
            raise UsageError(f"--adapter {text} is no NAME=FOLDER of a new name; give one")
        found[name] = Path(folder)
    return found
