"""Time to finality against the number of Sybils."""

import pyarrow.compute as pc

from moot.sim.report.drawing import COLOURS, Look, add_means, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results

KEYS = ("providers.sybil-swarm.count", "providers.*sybil*.count")
KINDS = {True: ("disputed jobs", Look(COLOURS[1], "solid", "circle"))} | {
    False: ("jobs without a dispute", Look(COLOURS[0], "dash", "square"))
}


def draw(results: Results) -> Drawn | Lack:
    """Draw the mean time from the first claim to the payout, disputed jobs and others apart."""
    key = results.find_key(*KEYS)
    assert key is not None, "the plot is not made without it"
    jobs = results.read("jobs", ["is_disputed", "blocks", "provider"], [key])
    served = jobs.filter(pc.is_valid(jobs["provider"]))
    means = served.group_by([key, "run", "is_disputed"], use_threads=False).aggregate(
        [("blocks", "mean")]
    )
    blocks: dict[bool, dict[float, list[float]]] = {True: {}, False: {}}
    for row in means.to_pylist():
        if row[key] is not None and row["blocks_mean"] is not None:
            blocks[row["is_disputed"]].setdefault(row[key], []).append(row["blocks_mean"])
    if not blocks[True]:
        return Lack("no job was disputed")
    figure = make_figure(key, "from the first claim to the payout (blocks)")
    for is_disputed, (name, look) in KINDS.items():
        add_means(figure, name, look, blocks[is_disputed])
    figure.update_yaxes(rangemode="tozero")
    return Drawn(
        figure,
        "How long a job takes until it is paid out, with more and more accounts of one owner that "
        "lie, as means of the runs with each number, with their 95% intervals.",
    )


PLOT = Plot(
    name="sybils",
    title="Time to finality against the number of Sybils",
    draw=draw,
    tables=("jobs",),
    key=" ".join(KEYS),
    command="moot sweep sybil-storm --set providers.sybil-swarm.count=0:10:2 --reps 4 -o DIR",
)
