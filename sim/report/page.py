"""The page: one HTML file that asks nothing of the network, whatever is in the folder."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from sim.report.games import MOVE, collect_games
from sim.report.plot import Drawn, Plot
from sim.report.provenance import describe
from sim.report.results import Results
from sim.report.summary import summarise
from sim.report.text import clean, name_key, neutralise

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
    scripts = [Markup(get_plotlyjs()), Markup((HERE / "page.js").read_text("utf-8"))]  # noqa: S704 - ours, and the library's
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    text = environment.get_template("page.html").render(
        folder=clean(results.folder.resolve().name),
        provenance=describe(results),
        summary=summarise(results),
        sections=sections,
        games=games,
        games_json=embed({"columns": MOVE, "games": games}),
        games_left_out=count - len(games),
        style=Markup((HERE / "page.css").read_text("utf-8")),  # noqa: S704 - ours
        scripts=scripts,
        hashes=[_hash(script) for script in scripts],
    )
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


def embed(value: Any) -> Markup:
    """Return a value as JSON that no HTML parser sees the end of."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - there is nothing left in it that HTML knows


def _hash(script: str) -> str:
    """Return the digest by which the page's policy lets a script run."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
