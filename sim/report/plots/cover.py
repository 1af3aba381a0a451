"""The stakes of receipts that were open at once, beside what the receipts said of it."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moot.sim.report.drawing import GWEI, Look, add_means, choose_looks, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results

SPANS = 20
_COLUMNS = ("provider", "strategy", "issued", "last", "stake_gwei", "open_gwei")


def draw(results: Results) -> Drawn | Lack:
    """Draw what a provider of each strategy had open at most in each twentieth of the blocks."""
    receipts = results.read("receipts", _COLUMNS)
    names = sorted(set(receipts["strategy"].to_pylist()))
    looks = choose_looks(names)
    figure = make_figure("blocks (%)", "stakes that are open (ETH)")
    for name in names:
        own = receipts.filter(pc.equal(receipts["strategy"], name))
        true, said = measure_open(own)
        add_means(figure, name, looks[name], true)
        if any(max(said[x]) < max(true[x]) for x in said if x in true):
            look = Look(looks[name].colour, "dot", looks[name].symbol)
            add_means(figure, f"{name}, as its receipts say", look, said)
    figure.update_yaxes(rangemode="tozero")
    return Drawn(
        figure,
        "The stakes of all receipts that a provider had open at once, the most in each twentieth "
        "of the blocks, as means over the providers of a strategy and all runs, with their 95% "
        "intervals; dotted what the receipts said of it, where that was less: a bond that is "
        "promised several times over.",
    )


def measure_open(receipts: pa.Table) -> tuple[dict[float, list[float]], dict[float, list[float]]]:
    """Return what each provider had open at most, and what it said, in ETH, by part of a run.

    Args:
        receipts: of one strategy, with all columns that are read here.
    """
    true: dict[float, list[float]] = {}
    said: dict[float, list[float]] = {}
    end = pc.max(receipts["issued"]).as_py() + 1
    for run in receipts["run"].unique().to_pylist():
        played = receipts.filter(pc.equal(receipts["run"], run))
        for provider in played["provider"].unique().to_pylist():
            own = played.filter(pc.equal(played["provider"], provider))
            issued, last, stake, told = (
                own[name].to_numpy().astype(np.int64)
                for name in ("issued", "last", "stake_gwei", "open_gwei")
            )
            order = np.argsort(issued, kind="stable")
            ends = np.argsort(last, kind="stable")
            gone = np.concatenate([[0], np.cumsum(stake[ends])])
            ended = gone[np.searchsorted(last[ends], issued[order], side="left")]
            spans = issued[order] * SPANS // end
            _collect(true, spans, np.cumsum(stake[order]) - ended)
            _collect(said, spans, told[order])
    return true, said


def _collect(found: dict[float, list[float]], spans: Sequence[int], values: Sequence[int]) -> None:
    """Add the highest of values in each span."""
    for span in sorted(set(np.asarray(spans).tolist())):
        highest = np.asarray(values)[np.asarray(spans) == span].max()
        found.setdefault((span + 0.5) * 100 / SPANS, []).append(float(highest) / GWEI)


PLOT = Plot(
    name="cover",
    title="Stakes that are open at once, and what receipts say of it",
    draw=draw,
    tables=("receipts",),
    command="moot market exit-scam -o DIR",
)
