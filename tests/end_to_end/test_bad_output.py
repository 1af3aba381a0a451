"""Output that can't be written, and numbers too large: one line of error, and no partial file."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from moot.command.main import cli
from moot.command.options import make_console
from moot.offchain.errors import UsageError
from moot.sim.writing import write_whole
from tests.end_to_end.command import MOOT, moot


def list_integers(command: click.Command, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words before the value of each option that is a whole number."""
    for parameter in command.params:
        is_whole = isinstance(parameter.type, click.types.IntParamType)
        if is_whole and isinstance(parameter, click.Option):
            yield *words, parameter.opts[0]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from list_integers(child, *words, name)


REASONS = ("is not in the range", "not a valid integer", "does not fit into 64 bits")
"""What is said of a number: it is below the least one, Python does not read it, it is too large."""


def test_integers_past_64_bits() -> None:
    """No option of any verb takes a whole number that 64 bits do not hold."""
    found = list(list_integers(cli))
    assert len(found) >= 8
    for words in found:
        for value in (2**64, -(2**64), 10**400):
            done = moot(*words[:-1], f"{words[-1]}={value}")
            assert (done.status, done.stdout) == (2, ""), words
            assert any(reason in done.stderr for reason in REASONS)
            assert len(done.stderr.splitlines()) == 1


def run(*words: str, stdout: int) -> tuple[int, str]:
    """Run the command with this descriptor as its output; return its status and its errors."""
    done = subprocess.run(  # noqa: S603 - our own command
        [MOOT, *words], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stderr


def test_a_device_that_is_full() -> None:
    """Output that does not fit is an error of one line."""
    with Path("/dev/full").open("w") as full:
        for words in (("--help",), ("bench", "--help")):
            assert run(*words, stdout=full.fileno()) == (
                1,
                "moot: cannot write the output: No space left on device\n",
            )


def test_a_reader_that_went_away() -> None:
    """A command whose reader is gone ends, without a word, with the status of a broken pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    assert run("--help", stdout=writer) == (141, "")
    console = make_console()
    console.file = os.fdopen(writer, "w", buffering=1)
    with pytest.raises(BrokenPipeError):
        console.print("a table")
    with pytest.raises(BrokenPipeError):
        console.file.close()


@pytest.mark.parametrize(
    "number", [errno.EPIPE, errno.ECONNRESET, errno.ECONNREFUSED, errno.ETIMEDOUT]
)
def test_a_connection_that_broke_is_not_a_reader_that_went_away(number: int) -> None:
    """Where it was no pipe of our output that broke, one line says so."""
    broken = f"raise OSError({number}, {os.strerror(number)!r})"
    code = f"""
import sys
from moot.command.main import cli, main
def invoke(_):
    {broken}
cli.invoke = invoke
sys.argv = ["moot", "demo"]
main()
"""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"moot: a connection was lost: {os.strerror(number)}\n"


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    """A file that can't be written stays as it was, and nothing is left beside it."""
    path = tmp_path / "report.json"
    write_whole(path, "before")
    with pytest.raises(UsageError, match="cannot write"):
        write_whole(path, "\ud800")  # no text in UTF-8, found out only while it is written
    assert path.read_text() == "before"
    for bad in (tmp_path, tmp_path / "none" / "report.json", path / "below", Path("/dev/full")):
        with pytest.raises(UsageError, match="cannot write"):
            write_whole(bad, "after")
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
    write_whole(Path(os.devnull), "after")
    assert Path(os.devnull).is_char_device()


def test_the_command_is_importable_by_name() -> None:
    """Every verb that the help lists is there."""
    context = click.Context(cli)
    for name in cli.list_commands(context):
        module = name.replace("-", "_")
        assert hasattr(import_module(f"moot.command.{module}"), module)
