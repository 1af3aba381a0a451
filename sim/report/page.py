"""The page: one HTML file that asks nothing of the network, whatever is in the folder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plotly.offline import get_plotlyjs

from moot.offchain.text import clean
from moot.sim.pages.render import embed, render
from moot.sim.report.games import MOVE, collect_games
from moot.sim.report.plot import Drawn, Plot
from moot.sim.report.provenance import describe
from moot.sim.report.results import Results
from moot.sim.report.summary import summarise
from moot.sim.report.text import name_key, neutralise

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Section:
    """A plot's part of the page: its figure as JSON, or the reason why there is none.

    Attributes:
        name: of the plot.
        title: likewise.
        caption: what one sees; empty where there is no figure.
        figure: as JSON that can stand inside HTML; empty where there is none.
        reason: why there is none.
        command: what makes the data.
    """

    name: str
    title: str
    caption: str = ""
    figure: str = ""
    reason: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A report: its text, its sections, and how many games it shows."""

    text: str
    sections: Sequence[Section]
    games: int


def make_page(results: Results, plots: Sequence[Plot]) -> Page:
    """Return the report on a folder.

    Raises:
        UsageError: the folder can't be read.
    """
    sections = [make_section(results, plot) for plot in plots]
    games, count = collect_games(results)
    values = {
        "folder": clean(results.folder.resolve().name),
        "provenance": describe(results),
        "summary": summarise(results),
        "sections": sections,
        "games": games,
        "games_json": embed({"columns": MOVE, "games": games}),
        "games_left_out": count - len(games),
    }
    text = render(HERE, values, [get_plotlyjs()])
    return Page(text, sections, len(games))


def make_section(results: Results, plot: Plot) -> Section:
    """Return a plot's part of the page."""
    made = plot.make(results)
    if not isinstance(made, Drawn):
        return Section(plot.name, plot.title, reason=clean(made.reason), command=plot.command)
    figure = neutralise(json.loads(made.figure.to_json()))
    caption = f"{made.caption}{_describe_rest(results, plot)}"
    return Section(plot.name, plot.title, caption, embed(figure))


def _describe_rest(results: Results, plot: Plot) -> str:
    """Return the sentence about the varied keys that a plot against one of them runs over."""
    own = results.find_key(*plot.key.split())
    others = [name_key(key) for key in results.keys if key != own]
    if own is None or not others:
        return ""
    return f" Runs with all values of {', '.join(others)} are in each mean."
