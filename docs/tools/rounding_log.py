"""The tables of docs/measurements/rounding-log.md: what the published method costs and misses.

`python docs/tools/rounding_log.py record NAME --steps N` measures a row and keeps it in
docs/measurements/rounding-log.json; `table`, `seconds`, `paper` and `proven` print what is kept,
and `ranges` where nothing is ever logged.
"""

import argparse
import json
import math
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from moot.offchain.replication import proven
from moot.offchain.replication.compare import Setting
from moot.offchain.replication.profiles import find_profile
from moot.offchain.replication.published.replicate import Options, replicate, summarize
from moot.offchain.replication.published.thresholds import Thresholds, get_grid

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
    "resnet-50, batch of 8": Row(
        "examples/optimistic.py:resnet50_by_8", "tiny", "baseline", timed=True
    ),
    "resnet-50, batch of 8, 26 bits": Row(
        "examples/optimistic.py:resnet50_by_8", "tiny", "baseline", 26
    ),
    "gpt-2": Row("examples/optimistic.py:gpt2", "tiny", "split"),
    "gpt-2, 26 bits": Row("examples/optimistic.py:gpt2", "tiny", "split", 26),
    "mlp full": Row("mlp", "full", "split"),
    "resnet small": Row("resnet", "small", "old", timed=True),
    "gpt2 small": Row("gpt2", "small", "old", timed=True),
    "gpt2 small, 26 bits": Row("gpt2", "small", "old", 26),
    "gpt2 tiny, proven": Row("gpt2", "tiny", "old", timed=True, is_proven=True),
    "gpt2 small, proven": Row("gpt2", "small", "old", timed=True, is_proven=True),
    "gpt2 small, proven, split": Row("gpt2", "small", "split", timed=True, is_proven=True),
    "resnet small, proven": Row("resnet", "small", "old", timed=True, is_proven=True),
    "gpt2 full, proven": Row("gpt2", "full", "old", timed=True, is_proven=True),
}


def record(name: str, steps: int) -> None:
    """Measure a row, and keep after each step what it has come to."""
    row = ROWS[name]
    setting = Setting(row.program, row.size, steps, timed=row.timed)
    pair, done = (find_profile("native"), find_profile(row.auditor)), []
    train, count = partial(replicate, options=Options(row.bits)), summarize
    if row.is_proven:
        train, count = proven.replicate, proven.summarize
    for step in train(setting, *pair):
        done.append(step)
        keep(name, asdict(count(done)))


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
    ("log of a step of ResNet-50", "105 MB", "resnet-50, batch of 8", "log_bytes_per_step", 8),
    ("the same, compressed", "96 MB", "resnet-50, batch of 8", "compressed_bytes_per_step", 8),
    ("log of a step of GPT-2", "22 MB", "gpt-2", "log_bytes_per_step", 1),
    ("the same, compressed", "20 MB", "gpt-2", "compressed_bytes_per_step", 1),
)
"""The paper's bytes of a log, and where ours are, with how many times to take them."""

PAPER_RATIOS = (
    ("ResNet-50", "resnet-50, batch of 8", "28 / 24 = 1.17", "31 / 24 = 1.29"),
    ("GPT-2 (here its small size)", "gpt2 small", "11 / 8 = 1.38", "12 / 8 = 1.50"),
)
"""The paper's seconds of a trainer's and of an auditor's step over those in binary64."""


def paper() -> None:
    """Print the paper's numbers beside ours."""
    kept = load()
    print_head("", "paper", "here")
    for name, theirs, row, count, times in PAPER:
        if row in kept:
            taken = f"{times} x " if times > 1 else ""
            print_row(name, theirs, f"{taken}{kept[row][count] / 1e6:.3g} MB")
    for name, row, *ratios in PAPER_RATIOS:
        if row in kept:
            took = kept[row]["seconds"]
            for party, ratio in zip(("trainer", "auditor"), ratios, strict=True):
                measured = took[party] / took[f"{party}_binary64"]
                print_row(f"{party}'s step of {name} over binary64", ratio, f"{measured:.2f}")


def ranges() -> None:
    """Print where nothing is ever logged, for each number of bits and the usual pivot."""
    print_head("bits", "values that are never logged, from 1e-8 on")
    for bits in range(32, 22, -1):
        print_row(str(bits), ", ".join(list_gaps(bits)) or "none")


def list_gaps(bits: int) -> list[str]:
    """Return the ranges just above powers of ten in which half a distance is below a threshold."""
    share, found = Thresholds(bits).find("any") / get_grid(bits), []
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
    recording.add_argument("name", choices=ROWS)
    recording.add_argument("--steps", type=int, default=2)
    printing = {function.__name__: function for function in (table, seconds, paper, ranges)}
    printing["proven"] = print_proven
    for verb in printing:
        verbs.add_parser(verb)
    options = vars(parser.parse_args())
    function: Any = {"record": record, **printing}[options.pop("verb")]
    function(**options)


if __name__ == "__main__":
    main()
