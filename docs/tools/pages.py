"""Writes the pages of `docs/reference` that are made from the code; a test compares them with it.

`python docs/tools/pages.py` writes all, or those that are named.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.tools import api, assumptions, command_line, files

REFERENCE = Path(__file__).parents[1] / "reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "api.md": api.render,
    "assumptions.md": assumptions.render,
    "command-line.md": command_line.render,
    "files.md": files.render,
}


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PAGE", help=" ".join(PAGES))
    for name in parser.parse_args().names or PAGES:
        (REFERENCE / name).write_text(PAGES[name]())


if __name__ == "__main__":
    main()
