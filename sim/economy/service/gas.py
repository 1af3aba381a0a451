"""The gas of the service's calls: one row for each, as a scenario of `moot gas` has measured it.

Of calls that are made again and again it is that of a later one. `python -m
moot.sim.economy.service.gas` writes `gas.json` beside this file again, from the committed snapshot.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from moot.offchain.errors import UsageError
from moot.sim.gas.snapshot import NAME, Line, read
from moot.sim.writing import write_whole

FILE = Path(__file__).with_suffix(".json")
SNAPSHOT = Path(__file__).resolve().parents[3] / NAME


class Row(msgspec.Struct, frozen=True):
    """A call of the service, the line of the snapshot that is about it, and what it uses."""

    call: str
    line: str
    gas: int


@cache
def read_rows() -> Mapping[str, Row]:
    """Return the rows that come with us, by their calls."""
    rows = msgspec.json.decode(FILE.read_bytes(), type=tuple[Row, ...])
    return {row.call: row for row in rows}


def find_gas(call: str) -> int:
    """Return what a call uses; raises UsageError if the table has no such call."""
    rows = read_rows()
    if call not in rows:
        raise UsageError.unknown("call of the service", call, rows, "calls")
    return rows[call].gas


def measure_rows(rows: Iterable[Row], lines: Iterable[Line]) -> list[Row]:
    """Return rows with what the lines of a snapshot have measured.

    Raises:
        UsageError: a row's line is not there.
    """
    measured = {f"{line.scenario} {line.call}": line.median for line in lines}
    found = []
    for row in rows:
        if row.line not in measured:
            raise UsageError(
                f"nothing has measured {row.line}, which {row.call} needs; run "
                "`moot gas report --write`"
            )
        found.append(Row(row.call, row.line, measured[row.line]))
    return found


def main() -> None:
    """Write the table again from the snapshot."""
    rows = measure_rows(read_rows().values(), read(SNAPSHOT))
    lines = [msgspec.json.format(msgspec.json.encode(row), indent=0) for row in rows]
    text = ",\n".join(line.decode().replace("\n", " ") for line in lines)
    write_whole(FILE, f"[\n{text}\n]\n".replace("{ ", "{").replace(" }", "}"))


if __name__ == "__main__":
    main()
