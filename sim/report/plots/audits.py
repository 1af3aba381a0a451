"""Fraud and its detection against the rate of audits."""

from moot.sim.report.drawing import Look, add_means, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results

KEYS = ("audit.rate", "audit.*", "*")
"""Where audits were not varied they are drawn against what was."""
SHARES = {
    "jobs cheated in": ("cheated", "jobs", Look("#D55E00", "solid", "circle")),
    "cheated jobs that were caught": ("caught", "cheated", Look("#0072B2", "dash", "square")),
    "jobs with a wrong answer": ("wrong", "jobs", Look("#CC79A7", "dot", "diamond")),
}
"""What is drawn: a share of one column of `runs` in another, and its look."""


def draw(results: Results) -> Drawn | Lack:
    """Draw the three shares, each a mean of the runs with each rate."""
    key = results.find_key(*KEYS)
    assert key is not None, "the plot is not made without it"
    runs = results.runs.to_pydict()
    figure = make_figure(f"{key} (share of jobs)" if key == KEYS[0] else key, "share")
    for name, (part, whole, look) in SHARES.items():
        shares: dict[float, list[float]] = {}
        for value, some, count in zip(runs[key], runs[part], runs[whole], strict=True):
            if value is not None and count:
                shares.setdefault(value, []).append(some / count)
        add_means(figure, name, look, shares)
    figure.update_yaxes(tickformat=".0%", range=[-0.02, 1.05])
    return Drawn(
        figure,
        "How often providers cheat, how often a cheat loses its bond, and how often the client is "
        f"left with a wrong answer, as means of the runs with each {key}, with their 95% "
        "intervals.",
    )


PLOT = Plot(
    name="audits",
    title="Fraud and detection against the rate of audits, or what was varied",
    draw=draw,
    tables=("runs",),
    key=" ".join(KEYS),
    command="moot sweep baseline --set audit.rate=0:0.5:0.05 --reps 8 -o DIR",
)
