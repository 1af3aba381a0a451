"""The griefing ratio against the price of gas."""

from dataclasses import dataclass

import pyarrow.compute as pc

from moot.sim.economy.strategies.base import HONEST, WATCHER
from moot.sim.report.drawing import COLOURS, Look, add_means, make_figure, set_log
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results

KEYS = ("chain.base_fee_gwei",)
AGREED = (HONEST, WATCHER)
"""What those do that defend the right claim."""
RATIOS = {
    "fees and bonds of the others": (True, Look(COLOURS[1], "solid", "circle")),
    "their fees alone": (False, Look(COLOURS[0], "dash", "square")),
}
"""What the defenders' loss is divided by, and the look of the line."""


@dataclass(slots=True)
class Losses:
    """The losses in the games of a run, in gwei: of the defenders, and of the others."""

    defence: int = 0
    fees: int = 0
    bonds: int = 0


def draw(results: Results) -> Drawn | Lack:
    """Draw what each ETH that others lose costs those who do what is agreed."""
    key = results.find_key(*KEYS)
    assert key is not None, "the plot is not made without it"
    ratios: dict[bool, dict[float, list[float]]] = {True: {}, False: {}}
    for (value, _), losses in sum_losses(results, key).items():
        for with_bonds, by_value in ratios.items():
            divisor = losses.fees + losses.bonds * with_bonds
            if divisor:
                by_value.setdefault(value, []).append(losses.defence / divisor)
    if not ratios[True]:
        return Lack("in no game did anybody do something else than what is agreed")
    figure = make_figure(f"{key} (gwei)", "lost by defenders per ETH of others")
    for name, (with_bonds, look) in RATIOS.items():
        add_means(figure, name, look, ratios[with_bonds])
    set_log(figure.update_xaxes)
    set_log(figure.update_yaxes)
    return Drawn(
        figure,
        "What those who do what is agreed pay for gas in games, and lose in bonds, divided by what "
        "all others at the table lose there: fees and bonds, or fees alone (means of the runs with "
        "each price, with their 95% intervals). Prizes, which pay defenders back, are left out.",
    )


def sum_losses(results: Results, key: str) -> dict[tuple[float, int], Losses]:
    """Return the losses of each run, by the key's value and the run's number, ascending."""
    columns = ["conduct", "fees_gwei", "lost_gwei"]
    parties = results.read("parties", columns, [key])
    parties = parties.filter(pc.is_valid(parties[key]))
    table = parties.group_by([key, "run", "conduct"], use_threads=False).aggregate(
        [("fees_gwei", "sum"), ("lost_gwei", "sum")]
    )
    found: dict[tuple[float, int], Losses] = {}
    for row in table.sort_by([(key, "ascending"), ("run", "ascending")]).to_pylist():
        losses = found.setdefault((row[key], row["run"]), Losses())
        if row["conduct"] in AGREED:
            losses.defence += row["fees_gwei_sum"] + row["lost_gwei_sum"]
        else:
            losses.fees += row["fees_gwei_sum"]
            losses.bonds += row["lost_gwei_sum"]
    return found


PLOT = Plot(
    name="griefing",
    title="Griefing ratio against the price of gas",
    draw=draw,
    tables=("parties",),
    key=" ".join(KEYS),
    command="moot sweep baseline --set chain.base_fee_gwei=5,20,100,500 --reps 8 -o DIR",
)
