"""The tables of docs/measurements/rounding-log.md: what the published method costs and misses.

`python docs/tools/rounding_log.py record NAME --steps N` measures a row and keeps it in
docs/measurements/rounding-log.json; `table`, `seconds`, `paper` and `proven` print what is kept,
`bits` what fewer bits come to, and `ranges` where nothing is ever logged. `select NAME --draws N`
selects the thresholds of a row's layers, which `thresholds` prints; `weigh NAME` measures the
memory of its training in each way, which `memory` prints.
"""

import argparse
import json
import math
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.replication import proven
from moot.offchain.replication.compare import Setting, running
from moot.offchain.replication.profiles import find_profile
from moot.offchain.replication.published.replicate import (
    Options,
    make_method,
    replicate,
    summarize,
)
from moot.offchain.replication.published.selection import select_thresholds
from moot.offchain.replication.published.thresholds import Thresholds, get_grid
from moot.offchain.replication.published.training import Part

FILE = Path(__file__).parents[1] / "measurements" / "rounding-log.json"


@dataclass(frozen=True, slots=True)
class Row:
    """A training that is measured.

    Attributes:
        program: what is trained.
        size: its size.
        auditor: the auditor's profile; the trainer's is `native`.
        bits: those that the published method keeps.
        timed: whether torch's own steps are timed beside.
        is_proven: whether the log is that of `logged`.
    """

    program: str
    size: str
    auditor: str
    bits: int = 32
    timed: bool = False
    is_proven: bool = False


ROWS = {
    "resnet-50": Row("examples/optimistic.py:resnet50", "tiny", "baseline"),
    "resnet-50, timed": Row("examples/optimistic.py:resnet50", "tiny", "compatible", timed=True),
    "resnet-50, batch of 8": Row("examples/optimistic.py:resnet50_by_8", "tiny", "compatible"),
    "resnet-50, 26 bits": Row("examples/optimistic.py:resnet50", "tiny", "baseline", 26),
    "gpt-2": Row("examples/optimistic.py:gpt2", "tiny", "openblas"),
    "gpt-2, timed": Row("examples/optimistic.py:gpt2", "tiny", "compatible", timed=True),
    "gpt-2, 26 bits": Row("examples/optimistic.py:gpt2", "tiny", "openblas", 26),
    "mlp full": Row("mlp", "full", "split"),
    "resnet small": Row("resnet", "small", "old", timed=True),
    "gpt2 small": Row("gpt2", "small", "old", timed=True),
    "gpt2 tiny, proven": Row("gpt2", "tiny", "old", timed=True, is_proven=True),
    "gpt2 small, proven": Row("gpt2", "small", "old", timed=True, is_proven=True),
    "gpt2 small, proven, split": Row("gpt2", "small", "split", timed=True, is_proven=True),
    "resnet small, proven": Row("resnet", "small", "old", timed=True, is_proven=True),
    "gpt2 full, proven": Row("gpt2", "full", "old", timed=True, is_proven=True),
}


BITS = range(32, 22, -1)
"""The bits that a rounding may keep."""

FEWER = {
    f"{program}, {bits} bits": Row(source, size, "compatible", bits, timed=True)
    for program, source, size in (
        ("resnet small", "resnet", "small"),
        ("gpt-2 small", "examples/optimistic.py:small_gpt2", "tiny"),
    )
    for bits in BITS
}
"""Rows of the table of fewer bits."""

LAST = 50
"""Steps over which the loss of that table is averaged."""


def record(name: str, steps: int) -> None:
    """Measure a row, and keep after each step what it has come to."""
    row = (ROWS | FEWER)[name]
    setting = Setting(row.program, row.size, steps, timed=row.timed)
    pair, done = (find_profile("native"), find_profile(row.auditor)), []
    train: Any = partial(replicate, options=Options(row.bits))
    count: Any = summarize
    if row.is_proven:
        train, count = proven.replicate, proven.summarize
    for step in train(setting, *pair):
        done.append(step)
        losses = [step.trainer["loss"] for step in done[-LAST:] if "loss" in step.trainer]
        keep(name, asdict(count(done)) | ({"loss": fmean(losses)} if losses else {}))


SELECTED = "thresholds"
"""The key of the thresholds that were selected."""

SELECTING = "compatible"
"""The other profile by which thresholds are selected: its convolutions have other bits, too."""

PAPER_THRESHOLDS = {
    "Conv2d": "0.305",
    "Linear": "0.465",
    "Conv1D": "",
    "BatchNorm2d": "0.499",
    "LayerNorm": "0.499",
}
"""The paper's thresholds by kind of layer, over the distance of neighbours from 1 to 2."""


def select(name: str, draws: int) -> None:
    """Select the thresholds of a row's layers, and keep for each kind the least of its sizes."""
    row, kinds = ROWS[name], dict[str, dict[str, Any]]()
    setting = Setting(row.program, row.size, draws)
    pair = find_profile("native"), find_profile(SELECTING)
    for layer, found in select_thresholds(setting, *pair, row.bits).items():
        kind = kinds.setdefault(layer.split()[0], {"share": 0.5, "noted": 0, "elements": 0})
        kind["share"] = min(kind["share"], found.threshold / get_grid(row.bits))
        kind["noted"] += found.noted
        kind["elements"] += found.elements
    keep(SELECTED, load().get(SELECTED, {}) | {name: kinds})


def thresholds() -> None:
    """Print the thresholds that were selected."""
    print_head("training", "layers", "compared", "roundings that differ", "threshold", "paper")
    for name, kinds in load().get(SELECTED, {}).items():
        for kind, theirs in PAPER_THRESHOLDS.items():
            if kind in kinds:
                found = kinds[kind]
                share = f"{found['share']:.3f}" if found["noted"] else "none selected"
                counts = (f"{found[key]:,}" for key in ("elements", "noted"))
                print_row(name, f"`{kind}`", *counts, share, theirs)


MEMORY = "memory"
"""The key of the memory that was measured."""

WAYS = ("ordered", "exact", "logged", "published")
WEIGHED_STEPS = 2


def weigh(name: str) -> None:
    """Measure the most memory of a process that trains in each way, and keep it."""
    row, found = ROWS[name], {}
    for way in WAYS:
        arithmetic = way if way in ARITHMETICS else None
        setting = Setting(row.program, row.size, WEIGHED_STEPS, arithmetic=arithmetic)
        with tempfile.TemporaryDirectory() as folder:
            methods = {
                "logged": proven.make_method(Path(folder), writes=True),
                "published": make_method(Part(folder, writes=True)),
            }
            with running(setting, (find_profile("native"),), (methods.get(way),)) as (process,):
                for _ in range(WEIGHED_STEPS):
                    process.begin()
                    process.finish()
                found[way] = process.report["peak_bytes"]
    keep(MEMORY, load().get(MEMORY, {}) | {name: found})


def memory() -> None:
    """Print the memory that was measured."""
    print_head("training", *(f"{way}, GB" for way in WAYS))
    for name, found in load().get(MEMORY, {}).items():
        print_row(name, *(f"{found[way] / 1e9:.1f}" for way in WAYS))


def keep(name: str, found: Any) -> None:
    """Keep what was measured."""
    FILE.write_text(json.dumps(load() | {name: found}, indent=1) + "\n")


def load() -> dict[str, Any]:
    """Return what is kept."""
    kept: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return kept


def print_row(*cells: str) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(cells)} |")


def print_head(*cells: str) -> None:
    """Print the head of a table."""
    print_row(*cells)
    print(f"|{'---|' * len(cells)}")


def table() -> None:
    """Print bytes, corrections and differing steps."""
    print_head(
        "training",
        "auditor",
        "steps",
        "roundings a step",
        "log a step",
        "compressed",
        "may be steered",
        "corrected forward, backward",
        "steps that differ",
    )
    for name, kept in sort(load()):
        print_row(
            name,
            ROWS[name].auditor,
            f"{kept['steps']:,}",
            f"{kept['entries_per_step']:,.0f}",
            f"{kept['log_bytes_per_step'] / 1e6:.3g} MB",
            f"{kept['compressed_bytes_per_step'] / 1e6:.3g} MB",
            f"{kept['steerable_share']:.0%}",
            f"{kept['corrections_forward']}, {kept['corrections_backward']}",
            f"{kept['differing_steps']}",
        )


def bits() -> None:
    """Print what fewer bits come to."""
    print_head(
        "training",
        "bits",
        "steps",
        "steps that differ",
        "corrected forward, backward",
        "log a step, compressed",
        "may be steered",
        "trainer / its binary64",
        "auditor / its binary64",
        f"loss, mean of the last {LAST} steps",
    )
    kept = load()
    for name, row in FEWER.items():
        if name in kept:
            found = kept[name]
            took = found["seconds"]
            print_row(
                name.rpartition(",")[0],
                str(row.bits),
                f"{found['steps']:,}",
                f"{found['differing_steps']:,}",
                f"{found['corrections_forward']:,}, {found['corrections_backward']:,}",
                f"{found['compressed_bytes_per_step'] / 1e3:,.0f} kB",
                f"{found['steerable_share']:.0%}",
                f"{took['trainer'] / took['trainer_binary64']:.2f}",
                f"{took['auditor'] / took['auditor_binary64']:.2f}",
                f"{found['loss']:.5f}",
            )


def seconds() -> None:
    """Print the seconds of a step and their ratios."""
    print_head(
        "training",
        "binary32",
        "binary64",
        "trainer",
        "auditor",
        "trainer / its binary64",
        "auditor / its binary64",
        "trainer / its binary32",
    )
    for name, kept in sort(load()):
        if not ROWS[name].timed:
            continue
        took = kept["seconds"]
        print_row(
            name,
            *(f"{took[key]:.3g}" for key in ("trainer_binary32", "trainer_binary64")),
            *(f"{took[key]:.3g}" for key in ("trainer", "auditor")),
            f"{took['trainer'] / took['trainer_binary64']:.2f}",
            f"{took['auditor'] / took['auditor_binary64']:.2f}",
            f"{took['trainer'] / took['trainer_binary32']:.2f}",
        )


def print_proven() -> None:
    """Print the same of the proven method."""
    print_head(
        "training",
        "auditor",
        "steps",
        "entries a step",
        "log a step",
        "may be steered, of all that is rounded",
        "of sums and functions",
        "corrections",
        "steps that differ",
        "trainer / its binary64",
        "auditor / its binary64",
    )
    for name, kept in sort(load(), is_proven=True):
        took = kept["seconds"]
        print_row(
            name,
            ROWS[name].auditor,
            f"{kept['steps']:,}",
            f"{kept['entries_per_step']:,.0f}",
            f"{kept['log_bytes_per_step']:,.0f} bytes",
            f"{kept['steerable_share']:.1e}",
            f"{kept['steerable_share_of_loggable']:.1e}",
            f"{kept['corrections']}",
            f"{kept['differing_steps']}",
            f"{took['trainer'] / took['trainer_binary64']:.2f}",
            f"{took['auditor'] / took['auditor_binary64']:.2f}",
        )


def sort(kept: dict[str, Any], *, is_proven: bool = False) -> list[tuple[str, Any]]:
    """Return what is kept of the published method, or of the proven one, in the rows' order."""
    rows = (name for name, row in ROWS.items() if row.is_proven == is_proven)
    return [(name, kept[name]) for name in rows if name in kept]


PAPER = (
    ("log of a step of ResNet-50", "105 MB", "resnet-50", "log_bytes_per_step"),
    ("the same, compressed", "96 MB", "resnet-50", "compressed_bytes_per_step"),
    ("the same, 26 bits, compressed", "91 MB", "resnet-50, 26 bits", "compressed_bytes_per_step"),
    ("log of a step of GPT-2", "22 MB", "gpt-2", "log_bytes_per_step"),
    ("the same, compressed", "20 MB", "gpt-2", "compressed_bytes_per_step"),
    ("the same, 26 bits, compressed", "18 MB", "gpt-2, 26 bits", "compressed_bytes_per_step"),
)
"""The paper's bytes of a log, and where ours are."""

PAPER_RATIOS = (
    ("ResNet-50", "resnet-50, timed", "28 / 24 = 1.17", "31 / 24 = 1.29"),
    ("GPT-2", "gpt-2, timed", "11 / 8 = 1.38", "12 / 8 = 1.50"),
)
"""The paper's seconds of a trainer's and of an auditor's step over those in binary64."""


def paper() -> None:
    """Print the paper's numbers beside ours."""
    kept = load()
    print_head("", "paper", "here")
    for name, theirs, row, count in PAPER:
        if row in kept:
            print_row(name, theirs, f"{kept[row][count] / 1e6:.3g} MB")
    for name, row, *ratios in PAPER_RATIOS:
        if row in kept:
            took = kept[row]["seconds"]
            for party, ratio in zip(("trainer", "auditor"), ratios, strict=True):
                measured = took[party] / took[f"{party}_binary64"]
                print_row(f"{party}'s step of {name} over binary64", ratio, f"{measured:.2f}")


def ranges() -> None:
    """Print where nothing is ever logged, for each number of bits and the usual pivot."""
    print_head("bits", "values that are never logged, from 1e-8 on")
    for number in BITS:
        print_row(str(number), ", ".join(list_gaps(number)) or "none")


def list_gaps(number: int) -> list[str]:
    """Return the ranges just above powers of ten in which half a distance is below a threshold."""
    share, found = Thresholds(number).find("any") / get_grid(number), []
    for power in range(0, -9, -1):
        ten = float(f"1e{power}")
        binade = 2.0 ** (math.frexp(ten)[1] - 1)
        if 0.5 * binade / ten <= share:
            found.append(f"[{ten:.3g}, {2 * binade:.3g})")
    return found


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("name", choices=ROWS | FEWER)
    recording.add_argument("--steps", type=int, default=2)
    selecting = verbs.add_parser("select")
    selecting.add_argument("name", choices=ROWS)
    selecting.add_argument("--draws", type=int, default=10)
    weighing = verbs.add_parser("weigh")
    weighing.add_argument("name", choices=ROWS)
    printers = (table, bits, seconds, paper, ranges, thresholds, memory)
    printing = {function.__name__: function for function in printers}
    printing["proven"] = print_proven
    for verb in printing:
        verbs.add_parser(verb)
    options = vars(parser.parse_args())
    function: Any = {"record": record, "select": select, "weigh": weigh, **printing}[
        options.pop("verb")
    ]
    function(**options)


if __name__ == "__main__":
    main()
