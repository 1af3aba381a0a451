"""The plots of a report: ours, and those of a user's files."""

import re
from collections.abc import Iterable
from pathlib import Path

from moot.offchain.errors import UsageError
from moot.offchain.plugins import run_file
from moot.sim.report.plot import Plot
from moot.sim.report.plots.table import PLOTS

ATTRIBUTE = "PLOT"
TAKEN = frozenset(
    {"summary", "games", "game", "data", "chooser", "before", "after", "title", "moves"}
)
"""Names of other places of the page."""


def load_plots(files: Iterable[Path]) -> tuple[Plot, ...]:
    """Return our plots, and then those of a user's files.

    Raises:
        UsageError: a file is not there, can't be run, or has no plot that the page can show.
    """
    plots = list(PLOTS)
    for path in files:
        plot = getattr(run_file(path), ATTRIBUTE, None)
        if not isinstance(plot, Plot):
            raise UsageError(f"{path} has no plot; write {ATTRIBUTE} = Plot(...) at its end")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", plot.name):
            raise UsageError(f"{path}: {plot.name!r} is no name; use small letters and hyphens")
        if plot.name in TAKEN or plot.name in {other.name for other in plots}:
            raise UsageError(f"{path}: there is something called {plot.name!r} already; rename it")
        plots.append(plot)
    return tuple(plots)
