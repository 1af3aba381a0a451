"""The table and plot of docs/measurements/replication.md: how far trainings on profiles part.

`python docs/tools/replication.py record FOLDER PROFILE ...` trains programs under these profiles,
with stock torch and in each arithmetic; FOLDER keeps the records, so that it goes on where it
stopped. `--program` and `--way` choose among them; a program of full size is trained only if it is
chosen. `drift` lets a pair train side by side and measures after every step how far their states
are apart. `pairs FOLDER` compares all pairs of the records that there are. All results are kept in
docs/measurements/replication.json, which `summary`, `corrections` and `table` print and `plot`
draws.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any

from moot.offchain.replication.compare import Setting, compare
from moot.offchain.replication.profiles import PROFILES, find_profile
from moot.offchain.replication.records import Record, compare_records, find_records, record

FILE = Path(__file__).parents[1] / "measurements" / "replication.json"
PLOT = Path(__file__).parents[1] / "pictures" / "replication.png"
STEPS = 1000
PROGRAMS = (("mlp", "small"), ("resnet", "tiny"), ("gpt2", "tiny"))
FULL = {("mlp", "full"): STEPS, ("resnet", "full"): 20, ("gpt2", "full"): 20}
"""The programs of full size, and the steps that they are trained for."""
LOSS_EVERY = 4
"""Steps between two losses that are kept."""
DRIFT_STEPS = 100
DRIFT_PAIR = ("native", "old")
WAYS: Mapping[str, str | None] = {
    "stock": None,
    "exact": "exact",
    "logged": "logged",
    "ordered": "ordered",
}


def make_setting(program: str, size: str, way: str) -> Setting:
    """Return the training of a program in one of the ways."""
    steps = FULL.get((program, size), STEPS)
    return Setting(program, size, steps, arithmetic=WAYS[way])


def record_all(
    folder: Path, names: Sequence[str], programs: Sequence[tuple[str, str]], ways: Sequence[str]
) -> None:
    """Train in one way after the other under each profile, from the weights of the first.

    In `logged` the first is the trainer, and all others audit its logs.
    """

    def report(name: str, done: int, steps: int) -> None:
        if done % 100 == 0 or steps < STEPS:
            print(f"{name}: {done} of {steps} steps", file=sys.stderr)

    first = find_profile(names[0])
    for way in ways:
        for name in names:
            for program, size in programs:
                setting = make_setting(program, size, way)
                record(setting, [first, find_profile(name)], folder, report)


def compare_pairs(folder: Path) -> list[dict[str, Any]]:
    """Return how far each pair of profiles parts; of programs without a record what is kept."""
    rows = []
    for program, size in (*PROGRAMS, *FULL):
        found = {
            way: find_records(make_setting(program, size, way), PROFILES, folder) for way in WAYS
        }
        names = [name for name in PROFILES if any(name in records for records in found.values())]
        if not names:
            rows += group().get((program, size), [])
        for pair in combinations(names, 2):
            counts = {way: _summarize(records, pair) for way, records in found.items()}
            if counts["stock"] and not counts["stock"]["differing_steps"]:
                continue  # a pair of equals
            steps = make_setting(program, size, "stock").steps
            rows.append({"program": program, "size": size, "steps": steps, "pair": pair, **counts})
    return rows


def _summarize(records: Mapping[str, Record], pair: tuple[str, str]) -> dict[str, Any] | None:
    if not set(pair) <= set(records):
        return None
    summary = asdict(compare_records(*(records[name] for name in pair)))
    return {k: v for k, v in summary.items() if k != "last"} | {
        k: summary["last"][k]
        for k in ("elements", "all_elements", "tensors", "all_tensors", "distance")
    }


def drift(pair: tuple[str, str]) -> None:
    """Keep for each program how far two profiles' states are apart after every step."""
    profiles = [find_profile(name) for name in pair]
    for program, size in PROGRAMS:
        steps = compare(Setting(program, size, DRIFT_STEPS), *profiles)
        found = {program: [step.distance for step in steps]}
        keep(drift=load().get("drift", {}) | found)


def list_losses(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Return the losses of stock torch by program and profile."""
    return {
        program: {
            name: [float(f"{loss:.6g}") for loss in found.losses[::LOSS_EVERY]]
            for name, found in find_records(
                make_setting(program, size, "stock"), PROFILES, folder
            ).items()
        }
        for program, size in PROGRAMS
    }


def count_corrections(folder: Path) -> dict[str, dict[str, int]]:
    """Return what the auditors in `logged` have corrected, by program and profile."""
    found = {
        f"{program} {size}": find_records(make_setting(program, size, "logged"), PROFILES, folder)
        for program, size in (*PROGRAMS, *FULL)
    }
    return {
        program: {name: int(it.corrections.sum()) for name, it in records.items()}
        for program, records in found.items()
        if records
    }


def load() -> dict[str, Any]:
    """Return what is kept."""
    kept: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return kept


def keep(**found: Any) -> None:
    """Keep results beside those that are there."""
    FILE.write_text(json.dumps(load() | found, separators=(",", ":")) + "\n")


def summary() -> None:
    """Print for each program in how many steps its pairs of profiles differ, in each way."""
    print_row("program", "steps", *(f"pairs, and steps that differ: {way}" for way in WAYS))
    print_row(*["---"] * (2 + len(WAYS)))
    for (program, size), rows in group().items():
        cells = [
            describe([row[way]["differing_steps"] for row in rows if row[way]]) for way in WAYS
        ]
        print_row(f"{program} {size}", f"{rows[0]['steps']:,}", *cells)


def describe(steps: Sequence[int]) -> str:
    """Return how many pairs there are, and in how many steps they differ."""
    if not steps:
        return "not run"
    low, high = min(steps), max(steps)
    return f"{len(steps)}: {low:,}" + (f" to {high:,}" if high > low else "")


def corrections() -> None:
    """Print how many roundings the auditor under each profile has turned, in `logged`."""
    kept = load()["corrections"]
    print_row("auditor", *kept)
    print_row("---", *["---:"] * len(kept))
    first = next(iter(PROFILES))
    for name in PROFILES:
        if name != first and any(name in found for found in kept.values()):
            cells = (f"{found[name]:,}" if name in found else "not run" for found in kept.values())
            print_row(name, *cells)


def table() -> None:
    """Print for each pair of profiles how far stock torch's states part."""
    cells = {
        (name, tuple(row["pair"])): show(row["stock"])
        for name, rows in group().items()
        for row in filter(itemgetter("stock"), rows)
    }
    programs = list(dict.fromkeys(name for name, _ in cells))
    print_row("profiles", *(" ".join(name) for name in programs))
    print_row(*["---"] * (1 + len(programs)))
    for pair in dict.fromkeys(pair for _, pair in cells):
        print_row(", ".join(pair), *(cells.get((name, pair), "not run") for name in programs))


def show(stock: Mapping[str, Any]) -> str:
    """Return how far two trainings have parted: steps, tensors, elements, largest difference."""
    return (
        f"{stock['differing_steps']:,}; {stock['tensors']} of {stock['all_tensors']}; "
        f"{stock['elements'] / stock['all_elements']:.1%}; {stock['distance']:.0e}"
    )


def group() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the rows that are kept, by program and size."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in load()["pairs"]:
        if any(row[way] for way in WAYS):
            found.setdefault((row["program"], row["size"]), []).append(row)
    return found


def print_row(*cells: str) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(cells)} |")


def plot() -> None:
    """Draw how far losses and weights of stock torch are from those under `native`."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only the plot needs it

    kept = load()
    figure, axes = plt.subplots(2, len(PROGRAMS), figsize=(12, 6), squeeze=False)
    for (program, size), (above, below) in zip(PROGRAMS, axes.T, strict=True):
        losses = kept["losses"][program]
        for name in sorted(losses.keys() - {"native"}):
            gaps = [abs(a - b) for a, b in zip(losses[name], losses["native"], strict=True)]
            steps = range(0, STEPS, LOSS_EVERY)
            above.plot(steps, [max(gap, 1e-8) for gap in gaps], label=name, linewidth=0.8)
        below.plot(kept["drift"].get(program, []), label=" and ".join(DRIFT_PAIR))
        below.set_visible(program in kept["drift"])
        above.set(title=f"{program} {size}", ylabel="loss, apart from native's", yscale="log")
        below.set(xlabel="step", ylabel="state, largest difference", yscale="log")
        above.legend(fontsize="x-small")
        below.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(PLOT, dpi=100)


def main() -> None:
    """Do what is asked."""
    printing = {function.__name__: function for function in (summary, corrections, table, plot)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "pairs", "drift", *printing))
    parser.add_argument("folder", nargs="?", type=Path, help="of the records")
    parser.add_argument("profiles", nargs="*", help="the profiles, all by default")
    names = {f"{program}-{size}": (program, size) for program, size in (*PROGRAMS, *FULL)}
    parser.add_argument("--program", action="append", choices=names, help="those to train")
    parser.add_argument("--way", action="append", choices=WAYS, help="how to train them")
    options = parser.parse_args()
    if options.what == "record":
        programs = [names[name] for name in options.program] if options.program else PROGRAMS
        ways = options.way or list(WAYS)
        record_all(options.folder, options.profiles or list(PROFILES), programs, ways)
    if options.what in ("record", "pairs"):
        losses = list_losses(options.folder)
        turned = count_corrections(options.folder)
        keep(steps=STEPS, pairs=compare_pairs(options.folder), losses=losses, corrections=turned)
    if options.what == "drift":
        drift(DRIFT_PAIR)
    if options.what in printing:
        printing[options.what]()


if __name__ == "__main__":
    main()
