"""Plays swarms of lies against one honest provider, and measures what they cost it.

`python docs/tools/swarm.py` writes `swarm.csv` and the plot `swarm.png`, and prints the table and
the fitted lines of `gas.md` and `security.md`. With `--plot` it only draws what has been measured.
Swarms of up to ON_CHAIN liars are played on the contract. The same code plays larger ones on the
model, call by call, and there a call is counted with the mean gas that calls of its name had in the
largest swarm of its family on the contract. The plot needs matplotlib.
"""

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moot.sim.swarm import Tally, draw_crowds, draw_lies, open_model_swarm, open_swarm
from moot.sim.synthetic.products import Lie

DOCS = Path(__file__).parents[1]
RESULTS = DOCS / "measurements" / "swarm.csv"
FAMILIES = {
    "behind one root": (1, 10, 20, 50, 100, 150),
    "behind two roots": (2, 10, 20, 40, 100, 200, 300),
    "all different": (1, 3, 10, 30, 100, 300),
}
"""How many liars each family of swarms has."""
ON_CHAIN = 40
KINDS = ("fighting", "silent")
COLUMNS = (
    *("family", "kind", "liars", "referee", "won"),
    *("meetings", "matches", "blocks", "honest_gas", "total_gas", "prizes"),
)

Row = dict[str, int | str]
Numbers = NDArray[np.float64]
Prices = dict[tuple[str, bool], float]


def draw(family: str, liars: int, kind: str) -> list[Lie]:
    """Return the lies of a swarm."""
    silent = kind == "silent"
    if family == "all different":
        return draw_lies(liars, liars, silent=silent)
    roots = 1 if family == "behind one root" else 2
    return draw_crowds(roots, liars // roots, liars, silent=silent)


def sum_gas(tally: Tally, prices: Prices, *, of_honest: bool) -> int:
    """Return what the calls of one side cost at prices for each, if need be the other side's."""
    gas = 0.0
    for (name, is_honest), (count, _) in tally.uses.items():
        if is_honest == of_honest:
            price = prices.get((name, is_honest)) or prices[name, not is_honest]
            gas += count * price
    return round(gas)


def measure() -> Iterator[Row]:
    """Play all swarms, the small ones of a family first, and yield a row for each."""
    prices: Prices = {}
    for family, sizes in FAMILIES.items():
        for kind in KINDS:
            for liars in sizes:
                lies, is_on_chain = draw(family, liars, kind), liars <= ON_CHAIN
                tally = (open_swarm(lies) if is_on_chain else open_model_swarm(lies)).play()
                if is_on_chain:
                    prices |= {use: gas / count for use, (count, gas) in tally.uses.items()}
                honest, others = (sum_gas(tally, prices, of_honest=it) for it in (True, False))
                yield {
                    "family": family,
                    "kind": kind,
                    "liars": liars,
                    "referee": "contract" if is_on_chain else "model",
                    "won": int(tally.has_won),
                    "meetings": tally.meetings,
                    "matches": tally.matches,
                    "blocks": tally.blocks,
                    "honest_gas": honest,
                    "total_gas": honest + others,
                    "prizes": tally.prizes,
                }


def read() -> list[Row]:
    """Return what has been measured."""
    words = {"family", "kind", "referee"}
    with RESULTS.open() as file:
        rows = csv.DictReader(file)
        return [{k: v if k in words else int(v) for k, v in row.items()} for row in rows]


def select(rows: Sequence[Row], family: str, kind: str, column: str) -> Numbers:
    """Return a column of the rows of a family and kind."""
    found = [row[column] for row in rows if (row["family"], row["kind"]) == (family, kind)]
    return np.array(found, np.float64)


def get_terms(liars: Numbers) -> Numbers:
    """Return the terms of which the lines are made: 1, liars and log2(liars + 1)."""
    return np.stack([np.ones_like(liars), liars, np.log2(liars + 1)], axis=1)


def fit(rows: Sequence[Row], family: str, kind: str) -> Numbers:
    """Return the coefficients of the honest gas that have the least relative squares."""
    measured = select(rows, family, kind, "honest_gas")
    terms = get_terms(select(rows, family, kind, "liars"))
    if family != "all different":
        terms[:, 2] = 0  # there are no more rounds for more liars
    scaled = terms / measured[:, None]
    coefficients: Numbers = np.linalg.lstsq(scaled, np.ones_like(measured))[0].astype(np.float64)
    return coefficients


def describe(rows: Sequence[Row], family: str, kind: str) -> str:
    """Return the line of the honest provider's gas, as text."""
    base, per_liar, per_round = fit(rows, family, kind) / 1e3
    middle = f" {per_round:+.0f}k log2(n + 1)" if per_round else ""
    return f"{family}, {kind}: {per_liar:.0f}k n{middle} {base:+.0f}k"


def tabulate(rows: Sequence[Row]) -> str:
    """Return the table of all swarms, in Markdown."""
    lines = ["| liars | kind | on | matches | prizes | blocks | honest gas | all gas |"]
    lines.append("|" + "---|" * 8)
    for row in rows:
        gas = (f"{int(row[name]) / 1e6:.2f}M" for name in ("honest_gas", "total_gas"))
        known = (row[name] for name in ("kind", "referee", "matches", "prizes", "blocks"))
        cells = (f"{row['liars']} {row['family']}", *known, *gas)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def plot(rows: Sequence[Row]) -> None:
    """Draw the measurements; gas with its fitted lines."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only the plot needs it

    figure, (time, gas) = plt.subplots(1, 2, figsize=(11, 4.5))
    for number, family in enumerate(FAMILIES):
        for kind, marker, style in zip(KINDS, ("o", "x"), ("-", ":"), strict=True):
            liars, colour = select(rows, family, kind, "liars"), f"C{number}"
            fine = np.geomspace(1, liars.max(), 100)
            curve = get_terms(fine) @ fit(rows, family, kind) / 1e6
            label = f"{family}, {kind}"
            blocks, spent = (select(rows, family, kind, it) for it in ("blocks", "honest_gas"))
            time.plot(liars, blocks, marker + style, color=colour, label=label)
            gas.plot(liars, spent / 1e6, marker, color=colour, label=label)
            gas.plot(fine, curve, style, color=colour)
    time.set(xscale="log", xlabel="liars", ylabel="blocks", title="from the first match to the end")
    gas.set(xscale="log", yscale="log", xlabel="liars", ylabel="million gas", title="honest side")
    gas.legend()
    figure.tight_layout()
    figure.savefig(DOCS / "pictures" / "swarm.png", dpi=100)


def main() -> None:
    """Measure, unless only the plot is asked for, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", action="store_true", help="draw only what has been measured")
    if not parser.parse_args().plot:
        with RESULTS.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for row in measure():
                writer.writerow(row)
                file.flush()
    rows = read()
    print(tabulate(rows))
    print(*(describe(rows, family, kind) for family in FAMILIES for kind in KINDS), sep="\n")
    plot(rows)


if __name__ == "__main__":
    main()
