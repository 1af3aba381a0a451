"""Plays cases under faults: `python -m tests.parties.faults kills --cases 30 --seed 0`.

Each case has a seed of its own; the line of one that fails says with which it fails again.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.parties.faults_checks import check
from tests.parties.faults_kinds import KINDS
from tests.parties.faults_stage import Case, Stage, opened_stage


def play(stage: Stage, kind: str, seed: int) -> Counter[str]:
    """Play one case, check it, and return what happened, counted."""
    random = Random(f"{kind} {seed}")
    fault = KINDS[kind](random)
    case = Case(stage, random)
    case.play(fault)
    return fault.counts + Counter(check(case))


def main() -> int:
    """Play cases, say what each came to, and how many failed."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    parser.add_argument("--cases", type=int, default=1, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after these")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left
    failed, end = 0, time.monotonic() + chosen.seconds
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in chosen.kinds}
    with opened_stage(Path(tempfile.mkdtemp(prefix="moot-faults-"))) as stage:
        for seed in range(chosen.seed, chosen.seed + chosen.cases):
            for kind in chosen.kinds:
                if time.monotonic() > end:
                    continue
                started = time.monotonic()
                try:
                    counts = play(stage, kind, seed)
                    line = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
                except Exception as error:  # noqa: BLE001 - the next case is played all the same
                    failed += 1
                    counts, line = Counter(failed=1), f"FAILED {type(error).__name__}: {error}"
                totals[kind] += counts + Counter(cases=1)
                print(f"{kind} {seed}: {time.monotonic() - started:.0f} s, {line}", flush=True)  # noqa: T201
    for kind, counts in totals.items():
        print(f"{kind}: {dict(counts)}")  # noqa: T201
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
