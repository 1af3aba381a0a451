"""The gas of disputes by phase."""

import plotly.graph_objects as go
import pyarrow.compute as pc

from moot.sim.economy.schema import STAGES
from moot.sim.report.drawing import COLOURS, HATCHES, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results

MOST = 12
"""Lineups that are drawn, the most frequent first."""


def draw(results: Results) -> Drawn | Lack:
    """Draw a bar for each lineup, which is put together from the mean gas of each phase."""
    columns = [f"gas_{stage}" for stage in STAGES]
    games = results.read("games", ["lineup", *columns])
    means = games.group_by("lineup", use_threads=False).aggregate(
        [("run", "count"), *((column, "mean") for column in columns)]
    )
    order = [("run_count", "descending"), ("lineup", "ascending")]
    top = means.take(pc.sort_indices(means, order)).slice(0, MOST).to_pydict()
    figure = make_figure("mean gas of a game (thousands)", "")
    labels = [f"{name} ({n:,})" for name, n in zip(top["lineup"], top["run_count"], strict=True)]
    for number, stage in enumerate(STAGES):
        figure.add_trace(
            go.Bar(
                y=labels,
                x=[(gas or 0) / 1e3 for gas in top[f"gas_{stage}_mean"]],
                orientation="h",
                name=stage,
                marker={
                    "color": COLOURS[number],
                    "pattern": {"shape": HATCHES[number], "fgcolor": "white", "size": 6},
                },
                hovertemplate="%{y}<br>%{fullData.name}: %{x:,.1f} thousand<extra></extra>",
            )
        )
    figure.update_layout(
        barmode="stack", legend={"traceorder": "normal"}, height=200 + 36 * len(labels)
    )
    figure.update_yaxes(autorange="reversed")
    rest = means.num_rows - len(labels)
    others = f"; {rest} rarer lineups are left out" if rest else ""
    return Drawn(
        figure,
        "What the calls of a game use in each phase, by who sat at the table (in brackets, in how "
        f"many games){others}: {games.num_rows:,} games in all.",
    )


PLOT = Plot(
    name="phases",
    title="Gas by phase",
    draw=draw,
    tables=("games",),
    command="moot market baseline -o DIR",
)
