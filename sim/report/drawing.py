"""The look of all plots: axes, means, and colours that colour-blind people can tell apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import plotly.graph_objects as go

from moot.sim.estimates import estimate_mean

GWEI = 10**9
"""The number of gwei in an ETH."""
HONEST = "honest"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31")
"""The palette of Okabe and Ito, with a brown in the place of its yellow, faint on white."""
BLACK, GREY = "#222222", "#888888"
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
HATCHES = ("", "/", "x", "-", "\\", "+", ".")
_FONT = {"family": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", "size": 14}
HEIGHT = 460
"""Pixels."""


@dataclass(frozen=True, slots=True)
class Look:
    """The colour, dash and symbol of a line."""

    colour: str
    dash: str
    symbol: str


def choose_looks(names: Iterable[str]) -> Mapping[str, Look]:
    """Return a look for each name: `honest` is black, no two of the first 35 others are alike."""
    looks, symbols = {}, cycle(_SYMBOLS)
    others = sorted(set(names) - {HONEST})
    for number, name in enumerate(others):
        dash = _DASHES[number // len(COLOURS) % len(_DASHES)]
        looks[name] = Look(COLOURS[number % len(COLOURS)], dash, next(symbols))
    return {HONEST: Look(BLACK, "solid", "circle-open"), **looks}


def make_figure(x_title: str, y_title: str) -> go.Figure:
    """Return an empty figure with these axes."""
    figure = go.Figure()
    figure.update_layout(
        template="plotly_white",
        font=_FONT,
        height=HEIGHT,
        margin={"l": 80, "r": 20, "t": 20, "b": 60},
        legend={"orientation": "v", "bgcolor": "rgba(255,255,255,0.7)"},
        xaxis={"title": {"text": x_title}, "automargin": True},
        yaxis={"title": {"text": y_title}, "automargin": True},
    )
    axis = {"showline": True, "linecolor": GREY, "ticks": "outside", "zeroline": False}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure


def add_means(
    figure: go.Figure, name: str, look: Look, values: Mapping[float, Sequence[float]]
) -> None:
    """Draw a line through means, with bars for their intervals where there are several values.

    Args:
        figure: where.
        name: of the line.
        look: of the line.
        values: for each x at least one value, each of a run.
    """
    places = sorted(values)
    means = [estimate_mean(values[x]) for x in places]
    errors = [mean.margin for mean in means]
    figure.add_trace(
        go.Scatter(
            x=places,
            y=[mean.value for mean in means],
            customdata=[len(values[x]) for x in places],
            error_y={"type": "data", "array": errors, "visible": any(errors), "thickness": 1},
            name=name,
            mode="lines+markers",
            line={"color": look.colour, "dash": look.dash, "width": 2},
            marker={"color": look.colour, "symbol": look.symbol, "size": 8},
            hovertemplate="%{fullData.name}<br>%{x}: %{y:.4g} (%{customdata} runs)<extra></extra>",
        )
    )


def set_log(update: Callable[..., object]) -> None:
    """Make an axis logarithmic, with the ticks 1, 2 and 5 of each power of ten.

    Args:
        update: a figure's `update_xaxes` or `update_yaxes`.
    """
    ticks = [digit * 10.0**power for power in range(-9, 10) for digit in (1, 2, 5)]
    update(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
