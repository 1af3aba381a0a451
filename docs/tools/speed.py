"""The tables of docs/measurements/speed.md, made from what `moot bench` measures.

`python docs/tools/speed.py measure LABEL [PART ...]` runs the commands of the page, in turn, and
files what they print under a label, `now` or `before`; `add LABEL FILE ...` files what they printed
with `--json` elsewhere, as by another version. Both keep all in docs/measurements/speed.json, from
which `write` makes the tables anew. A quiet machine is needed: a part takes from one to fifteen
minutes.
"""

import argparse
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

FILE = Path(__file__).parents[1] / "measurements" / "speed.json"
PAGE = Path(__file__).parents[1] / "measurements" / "speed.md"
LABELS = ("before", "now")
BEHIND = 0.8
"""The ratio below which an operator is listed."""

THREADS = (1, 2)
GROUPS = ("generation", "indices", "layers", "pointwise")
PARTS: Mapping[str, Sequence[str]] = {
    **{group: ("ops", "--only", group, "--repeats", "11") for group in GROUPS},
    "dispute": ("dispute", "--threads", "2", "--repeats", "2"),
    "best": ("step", "--best", "--repeats", "2"),
}
"""Part of the page -> the command of `moot bench` that measures it."""

HEAD_LINES = 2
"""Lines of a table without rows."""

TABLE = re.compile(r"(<!-- table: (?P<name>\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

Row = dict[str, Any]
Found = dict[str, dict[str, list[Row]]]
"""Label -> part -> rows."""


def load() -> Found:
    """Return all that was measured."""
    found: Found = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {label: found.get(label, {}) for label in LABELS}


def keep(found: Found) -> None:
    """Keep all that was measured."""
    FILE.write_text(json.dumps(found, indent=1) + "\n")


def add(label: str, rows: Sequence[Row], part: str | None = None) -> None:
    """File rows under a label, in the place of those of the same part and number of threads."""
    found = load()
    for name in dict.fromkeys(part or _find_part(row) for row in rows):
        new = {_identify(row): row for row in rows if (part or _find_part(row)) == name}
        old = found[label].get(name, [])
        found[label][name] = [new.pop(_identify(row), row) for row in old] + [*new.values()]
    keep(found)


def _identify(row: Row) -> tuple[Any, ...]:
    """Return what tells a row from the others of its part."""
    return tuple(row.get(key) for key in ("program", "size", "name", "shape", "threads"))


def _find_part(row: Row) -> str:
    """Return the part of the page that a row belongs to."""
    if "trace_s" in row:
        return "dispute"
    return "best" if "best_s" in row else str(row["group"])


def measure(label: str, parts: Sequence[str]) -> None:
    """Run the commands of some parts, and file what they print."""
    program = Path(sys.executable).with_name("moot")
    for part in parts:
        words = [str(program), "bench", *PARTS[part], "--json"]
        print(" ".join(["moot", *words[1:]]), file=sys.stderr)
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - the page's own commands
        add(label, json.loads(done.stdout)["rows"], part)


def format_ratio(ratio: float | None) -> str:
    """Return a ratio for a table."""
    return "" if ratio is None else f"{ratio:.2f}"


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def collect(found: Found, part: str) -> dict[tuple[str, str], dict[tuple[str, int], float]]:
    """Return the ratios of a part by operator and shape, then by label and threads.

    Stock on several threads may take far longer than on one, while its threads wait for each other:
    it is taken at its best on as many or fewer.
    """
    ratios: dict[tuple[str, str], dict[tuple[str, int], float]] = {}
    for label in LABELS:
        least: dict[tuple[str, str], float] = {}
        for row in sorted(found[label].get(part, []), key=lambda row: int(row["threads"])):
            key = row["name"], row["shape"]
            least[key] = min(row["stock_s"], least.get(key, math.inf))
            ratios.setdefault(key, {})[label, row["threads"]] = least[key] / row["ours_s"]
    return ratios


def summarise(found: Found) -> str:
    """Return the table of the groups: their means before and now, and what is left behind."""
    rows = []
    for group in GROUPS:
        ratios = list(collect(found, group).values())
        if not ratios:
            continue
        rows.append([f"`{group}`", str(len(ratios)), *_summarise(ratios)])
    header = ["group", "shapes"]
    for count in THREADS:
        header += [f"{_name(count)}: before", "now", "least", f"below {BEHIND}"]
    return make_table(header, rows)


def _summarise(ratios: Sequence[Mapping[tuple[str, int], float]]) -> Iterator[str]:
    for count in THREADS:
        before, now = (
            [ratio[label, count] for ratio in ratios if (label, count) in ratio] for label in LABELS
        )
        yield format_ratio(geometric_mean(before) if before else None)
        yield format_ratio(geometric_mean(now) if now else None)
        yield format_ratio(min(now, default=None))
        yield str(sum(ratio < BEHIND for ratio in now))


def _name(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def list_ratios(found: Found, groups: Sequence[str], *, is_behind: bool) -> str:
    """Return the table of operators, all of them or those that are or were left behind."""
    rows = []
    for group in groups:
        for (name, shape), ratios in collect(found, group).items():
            now = [ratios.get(("now", count)) for count in THREADS]
            if is_behind and not any(ratio is not None and ratio < BEHIND for ratio in now):
                continue
            cells = [format_ratio(ratios.get((la, n))) for n in THREADS for la in LABELS]
            rows.append([f"{name}, {shape}", *cells])
    header = [
        "",
        *(f"{_name(n)}: {la}" if la == "before" else la for n in THREADS for la in LABELS),
    ]
    return make_table(header, rows)


def show_disputes(found: Found) -> str:
    """Return the table of what honesty costs, and a challenge."""
    header = "program | run, over bare steps | state, GB | step, s | first step, in steps"
    header += (
        " | hashing a state, s | writing it, s | trace, in steps | answers, in steps | capture, s"
    )
    rows = [
        [
            f"{row['program']}, {row['size']}",
            f"{row['run_over_steps']:.2f}",
            f"{row['state_bytes'] / 1e9:.2f}",
            f"{row['step_s']:.1f}",
            f"{row['first_step_steps']:.2f}",
            f"{row['hash_s']:.2f}",
            f"{row['write_s']:.2f}",
            f"{row['trace_steps']:.1f}",
            f"{row['answers_steps']:.2f} to {row['most_answers_steps']:.2f}",
            f"{row['capture_s']:.1f}",
        ]
        for row in found["now"].get("dispute", [])
    ]
    return make_table(header.split(" | "), rows)


def show_best(found: Found) -> str:
    """Return the table of whole steps beside stock at its best."""
    rows = [
        [
            row["name"],
            str(row["threads"]),
            f"{row['ours_s']:.2f}",
            f"{row['stock_s']:.2f}",
            f"{row['best_s']:.2f}",
            str(row.get("best", "")),
            format_ratio(row["ratio"]),
            format_ratio(row["best_ratio"]),
        ]
        for row in found["now"].get("best", [])
    ]
    header = ["", "threads", "ours, s", "eager, s", "best, s", "which", "eager/ours", "best/ours"]
    return make_table(header, rows)


TABLES: Mapping[str, Callable[[Found], str]] = {
    "groups": summarise,
    "generation": lambda found: list_ratios(found, ("generation",), is_behind=False),
    "behind": lambda found: list_ratios(found, GROUPS[1:], is_behind=True),
    "dispute": show_disputes,
    "best": show_best,
}


def write() -> None:
    """Make the page's tables anew; one that nothing was measured for stays as it is."""
    found = load()

    def replace(table: re.Match[str]) -> str:
        made = TABLES[table["name"]](found)
        return table[1] + made + table[3] if made.count("\n") > HEAD_LINES else table[0]

    PAGE.write_text(TABLE.sub(replace, PAGE.read_text()))


def main() -> None:
    """Measure, file or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, names in (("measure", "parts"), ("add", "files")):
        command = verbs.add_parser(verb)
        command.add_argument("label", choices=LABELS)
        command.add_argument(names, nargs="*" if verb == "measure" else "+")
    verbs.add_parser("write")
    asked = parser.parse_args()
    if asked.verb == "measure":
        measure(asked.label, asked.parts or list(PARTS))
    elif asked.verb == "add":
        for path in map(Path, asked.files):
            add(asked.label, json.loads(path.read_text())["rows"])
    write()


if __name__ == "__main__":
    main()
