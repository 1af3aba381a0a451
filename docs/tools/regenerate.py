"""Runs the commands that the README and docs/ show and puts their real output back into them.

A block that begins with `<!-- output of: COMMAND -->` and is followed by a fenced
block is replaced by what the command prints now. `--only WORD` runs only the commands with a word.
"""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"(<!-- output of: (?P<command>[^\n]+?) -->\n```text\n).*?(```)", re.DOTALL)


def run(command: str) -> str:
    """Return what a command prints, blank ends of lines removed."""
    words = shlex.split(command)
    program = Path(sys.executable).with_name(words[0])
    done = subprocess.run(  # noqa: S603 - the pages' own commands
        [program, *words[1:]], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines()) + "\n"


def main() -> None:
    """Rewrite the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run only the commands that contain this")
    only = parser.parse_args().only

    def replace(block: re.Match[str]) -> str:
        if only not in block["command"]:
            return block[0]
        print(block["command"], file=sys.stderr)
        return block[1] + run(block["command"]) + block[3]

    for page in PAGES:
        before = page.read_text()
        if (after := BLOCK.sub(replace, before)) != before:
            page.write_text(after)


if __name__ == "__main__":
    main()
