"""Drawn cases of several kinds, one line each: what campaigns from the command line share."""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

Kind = Callable[[Path, Random], str]
"""Plays a case in a folder, and says what came of it; its first word, up to `:`, is counted."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder that is removed."""
    folder = Path(tempfile.mkdtemp(prefix="moot-drawn-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(kinds: Mapping[str, Kind], kind: str, seed: int) -> str:
    """Play one case; an assertion fails where a promise is broken."""
    with scratch() as folder:
        return kinds[kind](folder, Random(f"{kind} {seed}"))


def run_campaign(kinds: Mapping[str, Kind], name: str, about: str) -> int:
    """Play cases as the command line says, a line each; return whether any has failed."""
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("--cases", type=int, default=10, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=[*kinds])
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    for kind in chosen.kinds:
        for seed in range(chosen.seed, chosen.seed + chosen.cases):
            try:
                word = play(kinds, kind, seed)
            except Exception as error:  # noqa: BLE001 - whatever it is, the case has failed
                word = f"FAILED: {type(error).__name__}: {error}"
            counts[word.partition(":")[0]] += 1
            sys.stdout.write(f"{kind} {seed}: {word}\n")
            sys.stdout.flush()
    listed = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    sys.stdout.write(f"{counts.total()} cases: {listed}\n")
    return int("FAILED" in counts)
