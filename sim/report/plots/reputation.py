"""The reputation of providers over time, by strategy."""

from moot.sim.report.drawing import add_means, choose_looks, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results
from moot.sim.report.timeline import X_TITLE, Timeline, describe_burn_in, mark_burn_in


def draw(results: Results) -> Drawn | Lack:
    """Draw a line for each strategy, means over all runs."""
    timeline = Timeline(results)
    found = timeline.average_strategies("reputation")
    if not found:
        return Lack("nobody served a job")
    figure = make_figure(X_TITLE, "reputation of who serves a job")
    looks = choose_looks(found)
    for name, values in found.items():
        add_means(figure, name, looks[name], values)
    figure.update_yaxes(range=[-0.02, 1.05])
    mark_burn_in(figure, timeline.first)
    return Drawn(
        figure,
        "The reputation of the first provider of each job when the job is settled, by strategy, in "
        "each twentieth of the jobs, as means of all runs with their 95% intervals. "
        f"{describe_burn_in(timeline.first)}",
    )


PLOT = Plot(
    name="reputation",
    title="Reputation over time",
    draw=draw,
    tables=("jobs",),
    command="moot market no-stake-floor -o DIR",
)
