"""The gas of an answer by receipt, by the calls that it goes to."""

import plotly.graph_objects as go

from moot.sim.economy.service.sums import sum_service
from moot.sim.report.drawing import COLOURS, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results


def draw(results: Results) -> Drawn | Lack:
    """Draw what each call has used, over the number of receipts, of all runs together."""
    answers = results.count_rows("receipts")
    rows = sum_service(results.read("service", ("call", "gas", "fees_gwei")))
    if not answers:
        return Lack("there were no receipts")
    figure = make_figure("call", "gas an answer")
    figure.add_trace(
        go.Bar(
            x=[row["call"] for row in rows],
            y=[row["gas"] / answers for row in rows],
            customdata=[[row["calls"], row["gas"] / row["calls"]] for row in rows],
            marker={"color": COLOURS[0]},
            hovertemplate="%{x}: %{y:.1f} gas an answer<br>%{customdata[0]} calls of "
            "%{customdata[1]:,.0f}<extra></extra>",
        )
    )
    total = sum(row["gas"] for row in rows) / answers
    return Drawn(
        figure,
        f"What {answers:,} answers by receipt have used together, over their number: "
        f"{total:,.1f} gas an answer. An honest answer needs no call of its own; deposits and "
        "vouchers are for many, and matches are about lies.",
    )


PLOT = Plot(
    name="service",
    title="Gas of an answer by receipt",
    draw=draw,
    tables=("receipts", "service"),
    command="moot market inference -o DIR",
)
