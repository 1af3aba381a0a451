"""The tables of a page's sections, printed by the tool that makes them: `python TOOL SECTION`."""

import argparse
from collections.abc import Callable, Iterator, Mapping

from rich.console import Console
from rich.table import Table

Sections = Mapping[str, Callable[[], Iterator[Table]]]
"""What a tool can print, by name."""


def make_table(tool: str, title: str, section: str, *columns: str, words: int = 1) -> Table:
    """Return an empty table of a tool's section; all but the first columns are of numbers."""
    table = Table(title=title, caption=f"python docs/tools/{tool} {section}", min_width=40)
    for place, name in enumerate(columns):
        is_text = place < words
        table.add_column(name, justify="left" if is_text else "right", no_wrap=is_text)
    return table


def print_section(sections: Sections, about: str | None, width: int) -> None:
    """Print the tables of the section that the command line names.

    Args:
        sections: all that there are.
        about: the tool's docstring, for its help.
        width: of the tables, in characters.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("section", choices=sections)
    console = Console(width=width, highlight=False)
    for table in sections[parser.parse_args().section]():
        console.print(table)
