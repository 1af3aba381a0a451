"""Prints the battery: `python -m tests.battery [WORD]` tries every row with a word in its name.

`--record` writes what it has found; a difference that is new there has no choice yet, and a test
fails until it is mended, or given the name of a choice of docs/tools/operator_choices.py.
"""

import argparse
import sys
import warnings

import torch

from tests.battery.draws import DRAWS
from tests.battery.reach import TABLES
from tests.battery.record import PATH, read_record
from tests.battery.table import ROWS
from tests.battery.trial import Trial


def main() -> int:
    """Try the rows; return 1 if one of them differs in a way that no choice explains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--record", action="store_true", help=f"write {PATH.name}")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)  # as in tests: torch's kernels differ by it where sums overflow
    record, unknown = read_record(), 0
    for name in (name for name in ROWS if options.word in name):
        trial = Trial(ROWS[name])
        found = [difference for draw in DRAWS for difference in trial.compare(draw)]
        record.update(name, trial.reached & TABLES, {difference.kinds for difference in found})
        for difference in found:
            choice = record.differences[name][difference.kinds]
            unknown += not choice
            line = f"{name}: {difference.draw}: {difference.kinds}: {difference.example}"
            print(f"{choice or 'UNKNOWN'}: {line}", flush=True)  # noqa: T201
        if options.record:
            record.write()
    return int(bool(unknown))


if __name__ == "__main__":
    sys.exit(main())
