"""Plays swarms of lies against one honest provider on the chain, and measures what they cost it.

`python docs/swarm.py` writes `swarm.csv` and the plot `swarm.png` beside itself, and prints the
fitted curves of `security.md`. With `--plot` it only draws what has been measured. The plot needs
matplotlib.
"""

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.swarm import draw_lies, open_swarm

HERE = Path(__file__).parent
SIZES = (1, 3, 10, 30, 100, 300)
KINDS = ("fighting", "silent")
COLUMNS = ("kind", "liars", "won", "meetings", "blocks", "honest_gas", "total_gas", "prizes")

Row = dict[str, int | str]
Numbers = NDArray[np.float64]


def measure(sizes: Sequence[int]) -> Iterator[Row]:
    """Play a swarm of every size and kind, and yield a row for each."""
    for liars in sizes:
        for kind in KINDS:
            swarm = open_swarm(draw_lies(liars, liars, silent=kind == "silent"))
            tally = swarm.play()
            yield {
                "kind": kind,
                "liars": liars,
                "won": int(tally.has_won),
                "meetings": tally.meetings,
                "blocks": tally.blocks,
                "honest_gas": tally.gas[swarm.honest],
                "total_gas": sum(tally.gas.values()),
                "prizes": tally.prizes,
            }


def read() -> list[Row]:
    """Return what has been measured."""
    with (HERE / "swarm.csv").open() as file:
        rows = csv.DictReader(file)
        return [{k: v if k == "kind" else int(v) for k, v in row.items()} for row in rows]


def select(rows: Sequence[Row], kind: str, column: str) -> Numbers:
    """Return a column of the rows of a kind."""
    return np.array([row[column] for row in rows if row["kind"] == kind], np.float64)


def get_terms(liars: Numbers) -> Numbers:
    """Return the terms of which the curves are made: 1, log2(liars + 1) and liars."""
    return np.stack([np.ones_like(liars), np.log2(liars + 1), liars], axis=1)


def fit(rows: Sequence[Row], kind: str, column: str, terms: int) -> Numbers:
    """Return the coefficients of so many terms that have the least relative squares."""
    measured = select(rows, kind, column)
    scaled = get_terms(select(rows, kind, "liars"))[:, :terms] / measured[:, None]
    coefficients: Numbers = np.linalg.lstsq(scaled, np.ones_like(measured))[0].astype(np.float64)
    return coefficients


def describe(rows: Sequence[Row], kind: str) -> tuple[str, str]:
    """Return the curves of the blocks and of the honest provider's gas, as text."""
    start, per_round = fit(rows, kind, "blocks", 2)
    base, per_match, per_liar = fit(rows, kind, "honest_gas", 3) / 1e3
    return (
        f"{kind}: {per_round:.0f} log2(n + 1) {start:+.0f} blocks",
        f"{kind}: {per_liar:.0f}k n {per_match:+.0f}k log2(n + 1) {base:+.0f}k gas",
    )


def plot(rows: Sequence[Row]) -> None:
    """Draw the measurements with their fitted curves."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only the plot needs it

    figure, panels = plt.subplots(1, 2, figsize=(10, 4))
    fine = np.geomspace(1, max(SIZES), 100)
    for kind, colour in zip(KINDS, ("C0", "C1"), strict=True):
        liars, labels = select(rows, kind, "liars"), describe(rows, kind)
        for axes, column, terms, unit, label in zip(
            panels, ("blocks", "honest_gas"), (2, 3), (1, 1e6), labels, strict=True
        ):
            curve = get_terms(fine)[:, :terms] @ fit(rows, kind, column, terms)
            axes.plot(liars, select(rows, kind, column) / unit, "o", color=colour)
            axes.plot(fine, curve / unit, color=colour, label=label)
    time, gas = panels
    time.set(xscale="log", xlabel="liars", ylabel="blocks", title="from the first match to the end")
    gas.set(xscale="log", yscale="log", xlabel="liars", ylabel="million gas", title="honest side")
    for axes in panels:
        axes.legend()
    figure.tight_layout()
    figure.savefig(HERE / "swarm.png", dpi=100)


def main() -> None:
    """Measure, unless only the plot is asked for, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", action="store_true", help="draw only what has been measured")
    if not parser.parse_args().plot:
        with (HERE / "swarm.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for row in measure(SIZES):
                writer.writerow(row)
                file.flush()
                print(*row.values())
    rows = read()
    for kind in KINDS:
        print(*describe(rows, kind), sep="\n")
    plot(rows)


if __name__ == "__main__":
    main()
