"""What a plot is: a function from a results folder to a figure, and what it needs of the folder."""

from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go

from moot.offchain.errors import UsageError
from moot.sim.report.results import Results


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure, and one sentence that says what one sees."""

    figure: go.Figure
    caption: str


@dataclass(frozen=True, slots=True)
class Lack:
    """The reason why there is nothing to draw, as a sentence without its full stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the report.

    Attributes:
        name: its place in the page, in small letters and hyphens.
        title: its heading.
        draw: makes it. It is called only for a folder that has what the plot needs.
        tables: the tables that it reads; each must have rows.
        key: the varied key that it is drawn against, as patterns of a shell between which there
            are spaces; empty for none.
        command: makes a folder that has what it needs.
    """

    name: str
    title: str
    draw: Callable[[Results], Drawn | Lack]
    tables: tuple[str, ...] = ()
    key: str = ""
    command: str = ""

    def make(self, results: Results) -> Drawn | Lack:
        """Return the figure, or the reason why there is none.

        Raises:
            UsageError: the plot is a user's, and makes something else.
        """
        if (self.tables or self.key) and not results.runs.num_rows:
            return Lack("no run of this folder is done")
        lacking = [name for name in self.tables if not results.count_rows(name)]
        if lacking:
            return Lack(f"the table {lacking[0]} of this folder has no rows")
        if self.key and results.find_key(*self.key.split()) is None:
            return Lack(f"the runs of this folder do not vary {self.key.split()[0]}")
        made = self.draw(results)
        if isinstance(made, Lack) or (
            isinstance(made, Drawn)
            and isinstance(made.figure, go.Figure)
            and isinstance(made.caption, str)
        ):
            return made
        raise UsageError(
            f"the plot {self.name} returned {made!r}; return Drawn(figure, caption) or Lack(reason)"
        )
