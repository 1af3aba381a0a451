"""The code blocks of the README and of the tutorials: each runs, and prints what is shown."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import DOCS, ROOT, list_blocks, list_commands

PAGES = (ROOT / "README.md", *sorted(DOCS.glob("tutorials/*.md")))
SECONDS = re.compile(r"\d+\.\d+ s\b")


def run(words: list[str], folder: Path) -> str:
    """Return what a program prints in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(  # noqa: S603 - the pages' own commands
        words, capture_output=True, text=True, cwd=folder, env=environment, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def find_missing(printed: str, told: list[str]) -> list[str]:
    """Return the lines that a command is said to print, in this order, and does not."""
    lines = iter(SECONDS.sub("", line.rstrip()) for line in printed.splitlines())
    return [line for line in told if line and SECONDS.sub("", line) not in lines]


def test_what_is_not_printed_is_found() -> None:
    """A line that is not printed is found, and so is one that is printed earlier."""
    assert find_missing("a\nb 1.5 s\n", ["a", "b 2.5 s"]) == []
    assert find_missing("a\nb\n", ["b", "a"]) == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    """Each block runs after those before it, in one folder that has the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    command = "import sys; from moot.command import main; main()"
    for block in list_blocks(page.read_text()):
        if block.excuse:
            continue
        if block.file:
            (tmp_path / block.file).write_text(block.code)
        elif block.language == "python":
            run([sys.executable, "-c", block.code], tmp_path)
        elif block.language == "console":
            for line, told in list_commands(block):
                program, *words = shlex.split(line, comments=True)
                assert program == "moot", line
                printed = run([sys.executable, "-c", command, *words], tmp_path)
                assert find_missing(printed, told) == [], line
