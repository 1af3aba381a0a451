"""The learning curve of a search: its rounds as plain rows, as CSV, and as a plot."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.io import to_html

from moot.sim.learning.training import Round
from moot.sim.report.drawing import BLACK, COLOURS, make_figure

MILLI = 1000.0


def list_rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """Return a row for each round: gains are beyond honesty, in ETH a job."""
    return [
        {
            "round": it.number,
            "policy": it.policy.value,
            "policy_low": it.policy.low,
            "policy_high": it.policy.high,
            "best": it.best,
            "kept": it.kept,
            "all": it.all,
            "spread": it.spread,
        }
        for it in rounds
    ]


def write_csv(rounds: Sequence[Round]) -> str:
    """Return the rows as CSV."""
    text = io.StringIO()
    rows = list_rows(rounds)
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def draw(rounds: Sequence[Round]) -> go.Figure:
    """Return the plot of a curve: the policy with its interval, the best candidate, and all."""
    figure = make_figure("round", "gain beyond honesty, mETH a job")
    numbers = [it.number for it in rounds]
    errors = [it.policy.margin * MILLI for it in rounds]
    lines = (
        ("the policy so far", BLACK, [it.policy.value for it in rounds], "solid"),
        ("best candidate", COLOURS[0], [it.best for it in rounds], "dash"),
        ("those kept", COLOURS[2], [it.kept for it in rounds], "dot"),
        ("all candidates", COLOURS[1], [it.all for it in rounds], "dashdot"),
    )
    for name, colour, values, dash in lines:
        is_policy = colour == BLACK
        figure.add_trace(
            go.Scatter(
                x=numbers,
                y=[value * MILLI for value in values],
                name=name,
                mode="lines+markers",
                line={"color": colour, "dash": dash, "width": 2},
                error_y={"type": "data", "array": errors, "visible": is_policy and any(errors)},
            )
        )
    figure.add_hline(y=0, line={"color": BLACK, "width": 1})
    return figure


def make_page(rounds: Sequence[Round]) -> str:
    """Return the plot as one HTML file, which asks nothing of the network."""
    page: str = to_html(draw(rounds), include_plotlyjs=True, full_html=True)
    return page
