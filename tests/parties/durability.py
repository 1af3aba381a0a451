"""Damages what a party keeps, and opens it again: `python -m tests.parties.durability --cases 40`.

A case cuts a file off, flips a bit of it, puts garbage behind it, or lets the disk be full at one
write. Then the party goes on, or says one line; no salt and no transaction that was sent is lost,
and nothing is signed with two meanings. The line of a case that fails says with which seed it
fails again.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.parties import durability_job, durability_journal
from tests.parties.damage import RESUMED, SAID

Kind = Callable[[Path, Random], str]
KINDS: dict[str, Kind] = {**durability_journal.KINDS, **durability_job.KINDS}


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder that is removed."""
    folder = Path(tempfile.mkdtemp(prefix="moot-durability-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(kind: str, seed: int) -> str:
    """Play one case, and return what came of it; an assertion fails where something is lost."""
    with scratch() as folder:
        return KINDS[kind](folder, Random(f"{kind} {seed}"))


@dataclass
class Tally:
    """What has come of cases."""

    counts: Counter[str]
    failed: int = 0


def main() -> int:
    """Play cases of every kind, say what each came to, and return whether any failed."""
    parser = argparse.ArgumentParser(prog="durability", description=__doc__)
    parser.add_argument("--cases", type=int, default=10, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    chosen = parser.parse_args()
    tally = Tally(Counter())
    for kind in KINDS:
        for seed in range(chosen.seed, chosen.seed + chosen.cases):
            try:
                word = play(kind, seed)
            except Exception as error:  # noqa: BLE001 - whatever it is, the case has failed
                tally.failed += 1
                word = f"FAILED: {type(error).__name__}: {error}"
            tally.counts[word.partition(":")[0]] += 1
            sys.stdout.write(f"{kind} {seed}: {word}\n")
    known = ", ".join(f"{tally.counts[word]} {word}" for word in (RESUMED, SAID))
    sys.stdout.write(f"{sum(tally.counts.values())} cases: {known}, {tally.failed} failed\n")
    return int(bool(tally.failed))


if __name__ == "__main__":
    sys.exit(main())
