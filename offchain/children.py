"""Children: processes of our own, the lines of JSON between them and us, and their end."""

import json
import subprocess
import sys
from contextlib import suppress
from typing import IO, Any


def start(module: str, *words: str, **options: Any) -> "subprocess.Popen[str]":
    """Start a module as a process that hears its input and says its output in lines.

    Args:
        module: the module.
        *words: its arguments.
        **options: others of `Popen`.
    """
    return subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        **options,
    )


def say(stream: IO[str], value: object) -> None:
    """Say a value, as a line of JSON, at once."""
    stream.write(json.dumps(value) + "\n")
    stream.flush()


def tell(process: "subprocess.Popen[str]", value: object) -> None:
    """Say a value to a process; one that has ended is known by the end of its output."""
    assert process.stdin is not None
    with suppress(OSError):
        say(process.stdin, value)


def get_last_words(text: str, otherwise: str) -> str:
    """Return the last line that says something of what a process has said."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else otherwise


def end_by_input(process: "subprocess.Popen[str]", patience_s: float) -> None:
    """End a process that ends with its input; kill it where it does not in so many seconds."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    wait_or_kill(process, patience_s)


def wait_or_kill(process: "subprocess.Popen[str]", patience_s: float) -> None:
    """Wait for the end of a process that was told to end, and kill it after so many seconds."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
