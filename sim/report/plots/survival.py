"""The survival of cheaters: how many of each strategy are still there after some time."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from scipy import stats

from moot.sim.report.drawing import HONEST, choose_looks, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results


@dataclass(frozen=True, slots=True)
class Stay:
    """The stay of a provider in a run, in blocks, and whether it left before the run was over."""

    blocks: int
    has_left: bool


def draw(results: Results) -> Drawn | Lack:
    """Draw Kaplan and Meier's estimate of survival for every strategy of providers."""
    stays = collect_stays(results)
    if not set(stays) - {HONEST}:
        return Lack("every provider was honest")
    looks = choose_looks(stays)
    figure = make_figure("blocks since a provider came", "share that is still there")
    for name, those in stays.items():
        curve = stats.ecdf(
            stats.CensoredData.right_censored(
                [stay.blocks for stay in those], [not stay.has_left for stay in those]
            )
        ).sf
        figure.add_trace(
            go.Scatter(
                x=np.concatenate(([0], curve.quantiles)).tolist(),
                y=np.concatenate(([1.0], curve.probabilities)).tolist(),
                name=f"{name} ({len(those)})",
                mode="lines",
                line={
                    "shape": "hv",
                    "color": looks[name].colour,
                    "dash": looks[name].dash,
                    "width": 2,
                },
                hovertemplate="%{fullData.name}<br>block %{x}: %{y:.1%}<extra></extra>",
            )
        )
    figure.update_yaxes(tickformat=".0%", range=[-0.02, 1.05])
    left = sum(stay.has_left for name, those in stays.items() if name != HONEST for stay in those)
    count = sum(len(those) for name, those in stays.items() if name != HONEST)
    return Drawn(
        figure,
        f"The share of providers that has not left or gone bankrupt, by strategy, over all runs "
        f"(Kaplan and Meier's estimate; in brackets, how many there were): of {count} that were "
        f"not honest, {left} left before their run was over.",
    )


def collect_stays(results: Results) -> dict[str, list[Stay]]:
    """Return how long each provider was there, by strategy in the order of the alphabet."""
    ends = dict(zip(*(results.runs[name].to_pylist() for name in ("run", "blocks")), strict=True))
    agents = results.read("agents", ["role", "strategy", "entered", "left"]).to_pydict()
    found: dict[str, list[Stay]] = {}
    columns = (agents[name] for name in ("run", "role", "strategy", "entered", "left"))
    for run, role, strategy, entered, left in zip(*columns, strict=True):
        if role == "provider":
            end = left if left is not None else max(ends[run], entered)
            found.setdefault(strategy, []).append(Stay(end - entered, left is not None))
    return dict(sorted(found.items()))


PLOT = Plot(
    name="survival",
    title="Survival of cheaters",
    draw=draw,
    tables=("agents",),
    command="moot market baseline -o DIR",
)
