"""The command `moot`: within the test process, to save the seconds of imports, or in its own."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from moot.command import main
from moot.command.options import COMPUTING

MOOT = Path(sys.executable).with_name("moot")
"""The command as it is installed."""


@dataclass(frozen=True)
class Done:
    """The result of a command; `computing` is what it said of what computes, which stderr lacks."""

    status: int
    stdout: str
    stderr: str
    computing: str = ""


def moot(*words: str) -> Done:
    """Run the command with these words, by the function that a user's script calls."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        patch.setattr(sys, "argv", ["moot", *words])
        with pytest.raises(SystemExit) as stop:
            main()
    assert isinstance(stop.value.code, int)
    said, others = split_lines(stderr.getvalue())
    return Done(stop.value.code, stdout.getvalue(), others, said)


@contextmanager
def showing(*words: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run a command in a process of its own, and give its page's address once it is there."""
    with subprocess.Popen(  # noqa: S603 - our own command
        [MOOT, *words, "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def split_lines(stderr: str) -> tuple[str, str]:
    """Return the lines that say what computes, and the others."""
    lines = stderr.splitlines(keepends=True)
    said = [line for line in lines if line.startswith(COMPUTING)]
    return "".join(said), "".join(line for line in lines if line not in said)


def complaint(done: Done, *, status: int) -> str:
    """Return the one line that a refused command prints."""
    assert done.status == status, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("moot: ")
    return line


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the bytes of everything in a results folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
