"""The pages of answers: what decides a market, and which design is best, in one file each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from moot.offchain.text import clean
from moot.sim.analysis.design import Design, Finalist
from moot.sim.analysis.goals import Tried
from moot.sim.analysis.measures import WORDS
from moot.sim.analysis.sensitivity import Explained, Sensitivity
from moot.sim.estimates import Estimate
from moot.sim.pages.render import embed, render
from moot.sim.report.drawing import COLOURS, GREY, make_figure
from moot.sim.report.text import neutralise

HERE, TEMPLATE = Path(__file__).parent, "answer.html"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page: a figure as JSON, or a table.

    Attributes:
        title: its heading.
        caption: what one sees.
        figure: as JSON that can stand inside HTML; empty for a table.
        heads: of the table's columns; empty for a figure.
        rows: of the table, as texts.
    """

    title: str
    caption: str
    figure: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def make_sensitivity_page(found: Sensitivity, market: str) -> str:
    """Return the page about what decides a market.

    Args:
        found: the indices.
        market: its name, for the heading.
    """
    parts = [part for one in found.explained for part in _list_indices(one, found)]
    told = f"{found.samples} samples, {found.markets:,} markets, {found.resamples:,} resamples"
    return _render(f"What decides {market}", told, parts)


def make_design_page(found: Design, market: str) -> str:
    """Return the page about a search for a design; `market` is its name, for the heading."""
    told = (
        f"{len(found.tried):,} designs with {found.reps} seeds each, finalists with {found.fresh} "
        f"others; {found.goal.describe()}"
    )
    if found.limits:
        told += f", where {', '.join(it.describe() for it in found.limits)}"
    parts = [_tabulate(found)]
    parts += [_draw_key(found, place) for place in range(len(found.keys))]
    return _render(f"A design of {market}", told, [*parts, _draw_progress(found)])


def show_estimate(found: Estimate) -> str:
    """Return a number with its interval."""
    if found.low is None or found.high is None:
        return f"{found.value:.4g}"
    return f"{found.value:.4g} ({found.low:.4g} to {found.high:.4g})"


def _render(title: str, provenance: str, parts: Sequence[Part]) -> str:
    values = {"title": clean(title), "provenance": clean(provenance), "sections": parts}
    return render(HERE, values, [get_plotlyjs()], template=TEMPLATE)


def _make_part(title: str, caption: str, figure: go.Figure) -> Part:
    return Part(title, caption, embed(neutralise(json.loads(figure.to_json()))))


def _list_indices(one: Explained, found: Sensitivity) -> Iterator[Part]:
    """Yield the figure and the table of a measure."""
    title = f"{one.measure}: {WORDS[one.measure]}"
    spread = f"mean {one.mean:.4g}, standard deviation {one.deviation:.4g} over the ranges"
    if one.indices:
        yield _make_part(
            title, f"Shares of its variance, with 95% intervals; {spread}.", _bars(one)
        )
    rows = [(it.key, show_estimate(it.first), show_estimate(it.total)) for it in one.indices]
    caption = (
        f"Intervals of 95% by SALib's bootstrap with {found.resamples:,} resamples."
        if rows
        else f"It is the same everywhere ({one.mean:.4g}): nothing decides it."
    )
    heads = ("key", "first order: alone", "total: with others")
    yield Part(f"{one.measure}: indices", caption, heads=heads, rows=rows)


def _bars(one: Explained) -> go.Figure:
    """Draw the indices of a measure."""
    figure = make_figure("", "share of the variance")
    keys = [clean(it.key) for it in one.indices]
    for name, estimates, colour in (
        ("alone (first order)", [it.first for it in one.indices], COLOURS[0]),
        ("with others (total)", [it.total for it in one.indices], COLOURS[1]),
    ):
        errors = {"type": "data", "array": [it.margin for it in estimates], "thickness": 1}
        values = [it.value for it in estimates]
        figure.add_trace(
            go.Bar(x=keys, y=values, error_y=errors, name=name, marker={"color": colour})
        )
    figure.update_layout(barmode="group")
    return figure


def _tabulate(found: Design) -> Part:
    """Return the table of the finalists, and of the market as it is configured."""
    names = list(found.configured.found)
    heads = ("", *found.keys, *names, *(it.describe() for it in found.limits))
    marked = {id(found.best): "best"} if found.best else {}
    rows = [_tell(found, it, marked.get(id(it), "")) for it in found.finalists]
    rows.append(_tell(found, found.configured, "as configured"))
    caption = (
        f"With {found.fresh} seeds that the search has not seen; all intervals hold together in "
        f"95 of 100 cases. {found.binding[:1].upper()}{found.binding[1:]}"
    )
    return Part("Finalists", caption.strip(), heads=heads, rows=rows)


def _tell(found: Design, one: Finalist, name: str) -> list[str]:
    values = [f"{it:g}" if isinstance(it, float) else clean(str(it)) for it in one.point]
    values = values or [""] * len(found.keys)
    return [name, *values, *map(show_estimate, one.found.values()), *one.verdicts]


def _is_feasible(found: Design, one: Tried) -> bool:
    return all(one.exceed(it) <= 0 for it in found.limits)


def _draw_key(found: Design, place: int) -> Part:
    """Draw all designs over a key."""
    key, goal = clean(found.keys[place]), found.goal.measure
    figure = make_figure(key, goal)
    groups: Mapping[str, list[Tried]] = {
        "breaks a limit": [it for it in found.tried if not _is_feasible(found, it)],
        "meets all limits": [it for it in found.tried if _is_feasible(found, it)],
    }
    for (name, tried), colour in zip(groups.items(), (GREY, COLOURS[0]), strict=True):
        figure.add_trace(
            go.Scatter(
                x=[it.point[place] for it in tried],
                y=[it.means[goal] for it in tried],
                mode="markers",
                name=name,
                marker={"color": colour, "size": 7},
            )
        )
    if found.best is not None:
        _add_best(figure, found, found.best, place)
    caption = f"Each point is a design, with {found.reps} seeds; the star was played again."
    return _make_part(f"{goal} against {key}", caption, figure)


def _add_best(figure: go.Figure, found: Design, best: Finalist, place: int) -> None:
    estimate = best.found[found.goal.measure]
    figure.add_trace(
        go.Scatter(
            x=[best.point[place]],
            y=[estimate.value],
            error_y={"type": "data", "array": [estimate.margin]},
            mode="markers",
            name="best, fresh seeds",
            marker={"color": COLOURS[1], "size": 14, "symbol": "star"},
        )
    )


def _draw_progress(found: Design) -> Part:
    """Draw the best design so far against the designs that were tried."""
    figure = make_figure("designs tried", f"best {found.goal.measure} so far")
    places, values = [], []
    best: float | None = None
    for number, one in enumerate(found.tried, 1):
        value = one.means[found.goal.measure]
        if not _is_feasible(found, one):
            continue
        if best is None or found.goal.weigh(value) < found.goal.weigh(best):
            best = value
            places.append(number)
            values.append(value)
    line = {"shape": "hv", "color": COLOURS[0]}
    figure.add_trace(go.Scatter(x=places, y=values, mode="lines+markers", line=line))
    return _make_part(
        "Progress of the search",
        "The best design so far that meets all limits, as the search has seen it: better than it "
        "is, which is why finalists are played again.",
        figure,
    )
