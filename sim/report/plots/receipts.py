"""What became of the lies of each strategy's receipts."""

import plotly.graph_objects as go

from moot.sim.economy.service.sums import sum_receipts
from moot.sim.report.drawing import COLOURS, HATCHES, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results

_COLUMNS = ("strategy", "chain", "is_lie", "is_relied", "is_covered", "finding", "lost_gwei")
SHARES = {
    "relied on": "relied",
    "challenged": "found",
    "part of a proof of fault": "faults",
    "not covered by the bond": "uncovered",
}
"""What is drawn: a share of the receipts of strategies that lie."""


def draw(results: Results) -> Drawn | Lack:
    """Draw the shares for each strategy that has lied, over all runs."""
    rows = [row for row in sum_receipts(results.read("receipts", _COLUMNS)) if row["lies"]]
    if not rows:
        return Lack("no receipt of this folder is a lie")
    figure = make_figure("strategy", "share of the lies")
    for index, (name, column) in enumerate(SHARES.items()):
        figure.add_trace(
            go.Bar(
                x=[row["strategy"] for row in rows],
                y=[row[column] / row["lies"] for row in rows],
                customdata=[[row[column], row["lies"]] for row in rows],
                name=name,
                marker={"color": COLOURS[index], "pattern": {"shape": HATCHES[index]}},
                hovertemplate="%{customdata[0]} of %{customdata[1]} lies<extra>%{x}, "
                "%{fullData.name}</extra>",
            )
        )
    figure.update_layout(barmode="group")
    figure.update_yaxes(tickformat=".1%", rangemode="tozero")
    told = ", ".join(f"{row['strategy']} {row['lies']:,} times" for row in rows)
    return Drawn(
        figure,
        "How many lies in answers by receipt somebody relied on, how many were challenged or part "
        "of a proof of fault, and how many stakes the standing bond did not cover beside all that "
        f"were open, of all runs together. {told[:1].upper()}{told[1:]} lied.",
    )


PLOT = Plot(
    name="receipts",
    title="What became of lies in answers by receipt",
    draw=draw,
    tables=("receipts",),
    command="moot market exit-scam -o DIR",
)
