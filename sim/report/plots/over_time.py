"""Rates of cheating, right answers and checks over time, with the burn-in marked."""

from moot.sim.analysis.over_time import WORDS
from moot.sim.economy.spans import SPANS
from moot.sim.report.courses import read_courses
from moot.sim.report.drawing import Look, add_means, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results
from moot.sim.report.timeline import X_TITLE, describe_burn_in, mark_burn_in

LOOKS = {
    "cheated": Look("#D55E00", "solid", "circle"),
    "right": Look("#009E73", "dash", "square"),
    "checked": Look("#0072B2", "dot", "diamond"),
}


def draw(results: Results) -> Drawn | Lack:
    """Draw each rate in each twentieth of the jobs, a mean over all runs."""
    courses = read_courses(results)
    figure = make_figure(X_TITLE, "share of jobs")
    for name, look in LOOKS.items():
        values: dict[float, list[float]] = {}
        for course in courses:
            for row in course.series[name]:
                for span, share in enumerate(row):
                    if share == share:  # noqa: PLR0124 - not NaN, of a span without a job
                        values.setdefault((span + 0.5) * 100 / SPANS, []).append(float(share))
        add_means(figure, WORDS[name], look, values)
    last = max(course.first for course in courses)
    mark_burn_in(figure, last)
    figure.update_yaxes(tickformat=".0%", range=[-0.02, 1.05])
    return Drawn(
        figure,
        "How often providers cheat, clients get a right answer, and somebody checks, in each "
        "twentieth of the jobs, as means of all runs with their 95% intervals. "
        f"{describe_burn_in(last)} {_describe_verdicts(results)}",
    )


def _describe_verdicts(results: Results) -> str:
    """Return how many settings are stationary after their burn-in."""
    verdicts = [course.judge() for course in read_courses(results)]
    still = sum(bool(verdict.trends) for verdict in verdicts)
    unknown = sum(not verdict.is_known for verdict in verdicts)
    told = f"By the test of Mann and Kendall {still} of {len(verdicts)} settings still change"
    return f"{told}; of {unknown} too few jobs are there to say." if unknown else f"{told}."


PLOT = Plot(
    name="over-time",
    title="Cheating, right answers and checks over time",
    draw=draw,
    tables=("jobs",),
    command="moot market weak-audit -o DIR",
)
