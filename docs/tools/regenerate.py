"""Runs the commands that the README and docs/ show and puts their real output back into them.

A fenced block after `<!-- output of: COMMAND -->` is replaced by what the command prints now, one
after `<!-- lines 1 5-6 of: COMMAND -->` by these of its lines, and one after `<!-- part NAME of:
COMMAND -->` by what stands between a line `== NAME` and the next one that begins so. A command
runs once for all of its blocks. `--only WORD` runs only the commands with a word.
"""

import argparse
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(
    r"(<!-- (?:output|lines (?P<lines>[\d -]+)|part (?P<part>\w+)) of: (?P<command>[^\n]+?) -->\n"
    r"```text\n).*?(```)",
    re.DOTALL,
)


@cache
def run(command: str) -> str:
    """Return what a command prints, blank ends of lines removed."""
    words = shlex.split(command)
    program = Path(sys.executable).with_name(words[0])
    done = subprocess.run(  # noqa: S603 - the pages' own commands
        [program, *words[1:]], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines()) + "\n"


def choose(lines: str, text: str) -> str:
    """Return the lines of a text that `1 5-6` names, counted from one."""
    rows = text.splitlines(keepends=True)
    chosen = []
    for word in lines.split():
        first, _, last = word.partition("-")
        chosen += rows[int(first) - 1 : int(last or first)]
    return "".join(chosen)


def find_part(name: str, text: str) -> str:
    """Return the lines of a part of a text."""
    parts = re.split(r"^== (\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))[name]


def main() -> None:
    """Rewrite the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run only the commands that contain this")
    only = parser.parse_args().only

    def replace(block: re.Match[str]) -> str:
        if only not in block["command"]:
            return block[0]
        print(block["command"], file=sys.stderr)
        printed = run(block["command"])
        if block["part"]:
            printed = find_part(block["part"], printed)
        if block["lines"]:
            printed = choose(block["lines"], printed)
        return block[1] + printed + block[block.re.groups]

    for page in PAGES:
        before = page.read_text()
        if (after := BLOCK.sub(replace, before)) != before:
            page.write_text(after)


if __name__ == "__main__":
    main()
