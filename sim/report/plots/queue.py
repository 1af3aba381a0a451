"""The queue over time: how many jobs are open."""

from moot.sim.report.drawing import COLOURS, Look, add_means, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results
from moot.sim.report.timeline import X_TITLE, Timeline, describe_burn_in, mark_burn_in

LOOK = Look(COLOURS[0], "solid", "circle")


def draw(results: Results) -> Drawn | Lack:
    """Draw the open jobs in each twentieth of the jobs, a mean over all runs."""
    timeline = Timeline(results)
    figure = make_figure(X_TITLE, "open jobs")
    add_means(figure, "open jobs", LOOK, timeline.average_blocks("open_jobs", 1.0))
    figure.update_yaxes(rangemode="tozero")
    mark_burn_in(figure, timeline.first)
    return Drawn(
        figure,
        "How many jobs have been sold and not yet settled, over the blocks in which something "
        "happened, in each twentieth of the jobs, as means of all runs with their 95% intervals. "
        f"{describe_burn_in(timeline.first)}",
    )


PLOT = Plot(
    name="queue",
    title="Open jobs over time",
    draw=draw,
    tables=("jobs", "ledger"),
    command="moot market gas-spike -o DIR",
)
