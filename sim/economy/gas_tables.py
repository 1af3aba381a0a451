"""The gas tables that come with us, so that nobody has to wait for what was measured already.

`python -m moot.sim.economy.gas_tables` measures them again, and writes `gas_tables.json` beside
this file. A table is used for what it was measured for, and for nothing else: another contract,
program or rule of the game is measured when it is first needed, and kept in the cache.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from moot.sim.economy.config import Program
from moot.sim.economy.gas import GasTable
from moot.sim.writing import write_whole

FILE = Path(__file__).with_suffix(".json")
PROGRAMS = (Program(), Program(arithmetic="exact"))


class Shipped(msgspec.Struct, frozen=True):
    """A table, and what it was measured for."""

    about: dict[str, Any]
    table: GasTable


def find_shipped(about: Mapping[str, Any]) -> GasTable | None:
    """Return the table that was measured for this; None if none was."""
    if not FILE.exists():
        return None
    shipped = msgspec.json.decode(FILE.read_bytes(), type=tuple[Shipped, ...])
    return next((each.table for each in shipped if each.about == about), None)


def read_table(kept: bytes | None) -> GasTable | None:
    """Return a table that was kept; None if there is none, or if it can't be read."""
    try:
        return None if kept is None else msgspec.json.decode(kept, type=GasTable)
    except msgspec.MsgspecError:
        return None


def main() -> None:
    """Measure the tables, and write them."""
    from moot.sim.economy.case_runner import CaseRunner  # noqa: PLC0415 - it reads what is written here

    shipped = []
    for program in PROGRAMS:
        runner = CaseRunner(program)
        shipped.append(Shipped(runner.describe_game(), runner.measure_gas()))
    text = msgspec.json.format(msgspec.json.encode(shipped), indent=0)
    write_whole(FILE, text.decode() + "\n")


if __name__ == "__main__":
    main()
