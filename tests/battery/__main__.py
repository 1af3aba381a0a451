"""Prints the battery: `python -m tests.battery [WORD]` tries every row with a word in its name.

`--record` writes what it has found; a difference that is new there has no choice yet, and a test
fails until it is mended, or given the name of a choice of docs/operator_choices.py.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator

from tests.battery.draws import DRAWS
from tests.battery.reach import TABLES
from tests.battery.record import PATH, read_record, update, write_record
from tests.battery.table import ROWS
from tests.battery.trial import Difference, Trial


def try_rows(word: str) -> Iterator[tuple[str, set[str], list[Difference]]]:
    """Yield the rows with a word in their names, what they reach and how they differ."""
    for name, row in ROWS.items():
        if word in name:
            trial = Trial(row)
            differences = [difference for draw in DRAWS for difference in trial.compare(draw)]
            yield name, trial.reached & TABLES, differences


def main() -> int:
    """Try the rows; return 1 if one of them differs in another way than the record says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--record", action="store_true", help=f"write {PATH.name}")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    record, unknown = read_record(), 0
    for name, reached, differences in try_rows(options.word):
        before = record.get(name, {})
        record[name] = update(before, reached, {d.kinds for d in differences})
        for difference in differences:
            choice = record[name]["differences"][difference.kinds]
            unknown += not choice
            line = f"{name}: {difference.draw}: {difference.kinds}: {difference.example}"
            print(f"{choice or 'UNKNOWN'}: {line}", flush=True)  # noqa: T201
        if options.record:
            write_record(record)
    return int(bool(unknown))


if __name__ == "__main__":
    sys.exit(main())
