"""The price of gas over time."""

from moot.sim.report.drawing import COLOURS, GWEI, Look, add_means, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results
from moot.sim.report.timeline import X_TITLE, Timeline, describe_burn_in, mark_burn_in

LOOK = Look(COLOURS[1], "solid", "circle")


def draw(results: Results) -> Drawn | Lack:
    """Draw the base fee in each twentieth of the jobs, a mean over all runs."""
    timeline = Timeline(results)
    figure = make_figure(X_TITLE, "base fee (gwei)")
    add_means(figure, "base fee", LOOK, timeline.average_blocks("base_fee_wei", 1 / GWEI))
    figure.update_yaxes(rangemode="tozero")
    mark_burn_in(figure, timeline.first)
    return Drawn(
        figure,
        "What a unit of gas costs without the tip, over the blocks in which something happened, in "
        "each twentieth of the jobs, as means of all runs with their 95% intervals. "
        f"{describe_burn_in(timeline.first)}",
    )


PLOT = Plot(
    name="gas",
    title="The price of gas over time",
    draw=draw,
    tables=("jobs", "ledger"),
    command="moot market gas-spike -o DIR",
)
