"""The table of docs/reference/combinations.md: a tiny dispute of every combination of choices.

`python docs/tools/combinations.py` plays them all, some minutes, and writes the page;
`--rows WORD ...` plays the rows with all of these words only, and leaves the others as they stand
on the page. A cell works if the liar is found and loses; otherwise it is refused in one line, which
is the cell's note.
"""

import argparse
import io
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from moot.command import main as moot
from moot.command.options import COMPUTING
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.backends.table import BACKENDS
from moot.offchain.chain.devnode.server import DevNode, serve

PAGE = Path(__file__).parents[1] / "reference" / "combinations.md"
WORKS, NEEDS_DEVICE, UNKNOWN = "works", "needs a device", "not played"
ARITHMETIC = tuple(ARITHMETICS)
LEAF = ("scalar", "operator")
WORKERS = (1, 2)
PRECISION = ("fp32", "bf16")
CHAIN = ("tester", "node")
LENGTH = ("--program", "mlp", "--steps", "1", "--checkpoint-every", "1", "--trust-capture")
ACCOUNTS = 8
_NO_DRIVER = "no NVIDIA driver"


class Row(NamedTuple):
    """A row of the table: what computes, in which arithmetic, and who decides."""

    arithmetic: str
    leaf: str
    backend: str
    workers: int


class Cell(NamedTuple):
    """A cell: a row, in a precision and on a chain."""

    row: Row
    precision: str
    chain: str


ROWS = [Row(*each) for each in itertools.product(ARITHMETIC, LEAF, BACKENDS, WORKERS)]
COLUMNS = [*itertools.product(PRECISION, CHAIN)]
CELLS = [Cell(row, *column) for row in ROWS for column in COLUMNS]


@contextmanager
def opened_node() -> Iterator[str]:
    """Serve a node, and give its URL."""
    with serve(DevNode(ACCOUNTS)) as url:
        yield url


def play(cell: Cell, url: str) -> str:
    """Play a tiny dispute of a cell; return that it works, or the line that refuses it.

    Args:
        cell: the cell.
        url: that of a node.

    Raises:
        AssertionError: it fails in another way.
    """
    row = cell.row
    chosen = {
        "--arithmetic": row.arithmetic,
        "--leaf": row.leaf,
        "--backend": row.backend,
        "--workers": str(row.workers),
        "--precision": cell.precision,
        "--chain": url if cell.chain == "node" else cell.chain,
    }
    status, said, complaint = call("dispute", *LENGTH, *itertools.chain(*chosen.items()), "--json")
    if status == 0:
        assert json.loads(said)["verdict"]["losers"], (cell, said)
        return WORKS
    lines = [line for line in complaint.splitlines() if not line.startswith(COMPUTING)]
    assert len(lines) == 1, (cell, complaint)
    line = lines[0].removeprefix("moot: ")
    assert "choose" in line, (cell, line)
    return NEEDS_DEVICE if _NO_DRIVER in line else line


def call(*words: str) -> tuple[int, str, str]:
    """Return the exit status of the command with these words, and what it prints."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["moot", *words]),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        status = 0
        try:
            moot()
        except SystemExit as end:
            status = int(end.code or 0)
    return status, stdout.getvalue(), stderr.getvalue()


def render(found: Mapping[Cell, str]) -> str:
    """Return the page's table, with a note for each line that refuses."""
    notes: dict[str, int] = {}
    heads = [f"{precision}, {chain}" for precision, chain in COLUMNS]
    lines = [_join("arithmetic", "leaf", "backend", "workers", *heads), f"|{'---|' * 8}"]
    for row in ROWS:
        cells = []
        for column in COLUMNS:
            result = found.get(Cell(row, *column), UNKNOWN)
            is_note = result not in {WORKS, NEEDS_DEVICE, UNKNOWN}
            cells.append(f"[{notes.setdefault(result, len(notes) + 1)}]" if is_note else result)
        lines.append(_join(row.arithmetic, row.leaf, row.backend, str(row.workers), *cells))
    return "\n".join([*lines, "", *(f"- [{number}] {line}" for line, number in notes.items())])


def read(text: str) -> dict[Cell, str]:
    """Return what a page's table says of its cells."""
    notes = dict(re.findall(r"^- (\[\d+\]) (.*)$", text, re.MULTILINE))
    found = {}
    for line in text.splitlines():
        arithmetic, *rest = [each.strip() for each in line.strip("|").split("|")]
        if arithmetic in ARITHMETIC and len(rest) == 3 + len(COLUMNS):
            row = Row(arithmetic, rest[0], rest[1], int(rest[2]))
            for column, cell in zip(COLUMNS, rest[3:], strict=True):
                found[Cell(row, *column)] = notes.get(cell, cell)
    return found


def write(found: Mapping[Cell, str]) -> None:
    """Write the table into the page."""
    head, mark, _ = PAGE.read_text().partition(f"{MARK}\n")
    PAGE.write_text(f"{head}{mark}\n{render(found)}\n")


MARK = "<!-- made by docs/tools/combinations.py -->"


def _join(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the cells and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=(), help="only rows that have all these words")
    words = {*parser.parse_args(arguments).rows}
    known = read(PAGE.read_text())
    with opened_node() as url:
        for row in ROWS:
            if words <= {*map(str, row)}:
                known |= {it: play(it, url) for column in COLUMNS for it in [Cell(row, *column)]}
                write(known)
                sys.stderr.write(f"{row}: {[known[Cell(row, *column)] for column in COLUMNS]}\n")


if __name__ == "__main__":
    main()
