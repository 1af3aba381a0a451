# ruff: noqa: INP001 - a file of the user's is not part of a package
"""A plot for `moot report DIR --plot examples/base_fee_plot.py`: the base fee, block by block."""

import plotly.graph_objects as go

from moot.sim.report.drawing import COLOURS, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results


def draw(results: Results) -> Drawn | Lack:
    """Draw the base fee of the first run."""
    ledger = results.read("ledger", ["run", "block", "base_fee_wei"])
    first = min(ledger["run"].to_pylist())
    rows = [row for row in ledger.to_pylist() if row["run"] == first]
    figure = make_figure("block", "base fee (gwei)")
    figure.add_trace(
        go.Scatter(
            x=[row["block"] for row in rows],
            y=[row["base_fee_wei"] / 1e9 for row in rows],
            mode="lines",
            line={"color": COLOURS[0]},
        )
    )
    return Drawn(figure, f"What a unit of gas costs in run {first}, without the tip.")


PLOT = Plot(name="base-fee", title="The base fee", draw=draw, tables=("ledger",))
