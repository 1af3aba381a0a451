"""The cost of a provider's audit of its own run: `python -m moot.bench.audits [PROGRAM] [SIZE]`.

A step is run as ever and as one that is drawn, in turns, and the least times of the process are
compared. What a drawn step costs is spread over the run, which has as many as `Audit` draws.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from moot.offchain.programs.graph import Program
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.audit import Audit
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task

LENGTHS = (10, 50, 200, 1000)
"""Steps of the runs that a row is about."""

STEPS = 3
"""Steps that are run for a measurement; the last one is drawn."""

TURNS = 3

MakeAudit = Callable[[Program, range], Audit]


def audit_last(length: int) -> MakeAudit:
    """Return what audits the last step as one that is drawn of a run of some length."""

    def make(program: Program, steps: range) -> Audit:
        audit = Audit(program, range(length))
        audit.drawn = frozenset(steps[-1:])
        return audit

    return make


def measure(task: Task, audit: MakeAudit | None) -> float:
    """Return the seconds that the process computes for the last of a few steps."""
    ends: list[float] = []
    with TemporaryDirectory(prefix="moot-") as folder:
        run = Run(task, Behaviour(), Store(Path(folder)))
        run.compute(lambda _: ends.append(time.process_time()), audit=audit)
    return ends[-1] - ends[-2]


def main() -> None:
    """Print a row for each length of a run."""
    program, size = [*sys.argv[1:], *("gpt2", "small")[len(sys.argv) - 1 :]]
    task = make_task(Setting(program=program, size=size, steps=STEPS, checkpoint_every=STEPS))
    measure(task, audit_last(LENGTHS[0]))  # what is compiled or read once in a process
    sys.stdout.write("| steps | drawn | a drawn step, in steps | of the run |\n|---|---|---|---|\n")
    for length in LENGTHS:
        makers = (None, audit_last(length))
        rows = [[measure(task, maker) for maker in makers] for _ in range(TURNS)]
        plain, audited = map(min, zip(*rows, strict=True))
        drawn = len(Audit(task.program, range(length)).drawn)
        extra = audited / plain - 1
        share = drawn * extra / length
        sys.stdout.write(f"| {length} | {drawn} | {1 + extra:.1f} | {share:.1%} |\n")


if __name__ == "__main__":
    main()
