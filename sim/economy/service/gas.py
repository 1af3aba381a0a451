"""The gas of the service's calls: one row for each, measured where `moot gas` has a scenario of it.

`python -m moot.sim.economy.service.gas` reads the committed snapshot of what calls cost, and writes
`gas.json` beside this file again: the median of a call that it has, and what stood there of others.
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
ESTIMATE = "estimate"
"""The source of a row that nothing has measured yet."""


class Row(msgspec.Struct, frozen=True):
    """A call of the service: what it uses, and where that is from, a scenario or an estimate."""

    call: str
    gas: int
    source: str


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


def put_measured(rows: Iterable[Row], lines: Iterable[Line]) -> list[Row]:
    """Return rows of which those have what was measured that a line of the snapshot is about."""
    measured = {line.call: line for line in lines}
    return [
        Row(row.call, found.median, found.scenario) if (found := measured.get(row.call)) else row
        for row in rows
    ]


def main() -> None:
    """Write the table again, with all that the snapshot has measured."""
    rows = put_measured(read_rows().values(), read(SNAPSHOT))
    lines = [msgspec.json.format(msgspec.json.encode(row), indent=0) for row in rows]
    text = ",\n".join(line.decode().replace("\n", " ") for line in lines)
    write_whole(FILE, f"[\n{text}\n]\n".replace("{ ", "{").replace(" }", "}"))


if __name__ == "__main__":
    main()
