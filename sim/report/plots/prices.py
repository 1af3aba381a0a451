"""What a job costs over time: its price, and the fees for its gas."""

from moot.sim.report.drawing import GWEI, Look, add_means, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results
from moot.sim.report.timeline import X_TITLE, Timeline, describe_burn_in, mark_burn_in

LINES = {
    "price of a job": ("price_gwei", Look("#0072B2", "solid", "circle")),
    "fees for its gas": ("fees_gwei", Look("#D55E00", "dash", "square")),
}


def draw(results: Results) -> Drawn | Lack:
    """Draw both in each twentieth of the jobs, means over all runs."""
    timeline = Timeline(results)
    found = {name: timeline.average_jobs(column, 1 / GWEI) for name, (column, _) in LINES.items()}
    if not any(found.values()):
        return Lack("nobody served a job")
    figure = make_figure(X_TITLE, "a job that was served (ETH)")
    for name, (_, look) in LINES.items():
        add_means(figure, name, look, found[name])
    figure.update_yaxes(rangemode="tozero")
    mark_burn_in(figure, timeline.first)
    return Drawn(
        figure,
        "What a client pays its providers for a job, and what everybody pays for its gas, in each "
        "twentieth of the jobs, as means of all runs with their 95% intervals. "
        f"{describe_burn_in(timeline.first)}",
    )


PLOT = Plot(
    name="prices",
    title="Prices over time",
    draw=draw,
    tables=("jobs",),
    command="moot market baseline -o DIR",
)
