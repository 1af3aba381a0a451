"""The profit of each strategy against the bond, and where it earns what an honest provider does.

Where bonds were not varied it is drawn against what was.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from moot.sim.report.agents import read_agents
from moot.sim.report.drawing import GWEI, HONEST, add_means, choose_looks, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results

KEYS = ("bond.eth", "bond.*", "providers.*", "*")


def draw(results: Results) -> Drawn | Lack:
    """Draw the mean profit of a provider of each strategy, a mean of the runs with each value."""
    key = results.find_key(*KEYS)
    assert key is not None, "the plot is not made without it"
    curves = measure_profits(results, key)
    if not curves:
        return Lack("there were no providers")
    figure = make_figure(
        f"{key} (ETH)" if key.endswith("eth") else key, "profit of a provider (ETH)"
    )
    figure.update_yaxes(zeroline=True)
    looks = choose_looks(curves)
    for name, curve in curves.items():
        add_means(figure, name, looks[name], curve)
    return Drawn(
        figure,
        "What a provider of each strategy has won or lost by a run's jobs, as a mean of the "
        f"runs with each {key}, with its 95% interval. {describe_break_even(key, curves)}",
    )


def describe_break_even(key: str, curves: Mapping[str, Mapping[float, Sequence[float]]]) -> str:
    """Return a sentence that says where strategies break even: earn what honest providers do."""
    honest = curves.get(HONEST)
    if honest is None:
        return "There is no honest provider, beside whom a strategy could break even."
    found = []
    for name, curve in curves.items():
        points = [(x, fmean(curve[x]) - fmean(honest[x])) for x in curve if x in honest]
        found += [f"{name} at {key} = {x:.3g}" for x in find_crossings(points)]
    if not found:
        return "No strategy breaks even: none earns what an honest provider does."
    return f"Strategies break even, and earn what an honest provider does: {', '.join(found)}."


def measure_profits(results: Results, key: str) -> Mapping[str, Mapping[float, list[float]]]:
    """Return a provider's mean profit in ETH in each run, by strategy and by a key's value.

    Strategies and values ascend.
    """
    agents = read_agents(results, [key]).to_pydict()
    runs: dict[tuple[str, float, int], list[float]] = {}
    columns = (agents[name] for name in ("role", "strategy", key, "run", "profit_gwei"))
    for role, strategy, value, run, profit in zip(*columns, strict=True):
        if role == "provider" and value is not None:
            runs.setdefault((strategy, value, run), []).append(profit / GWEI)
    found: dict[str, dict[float, list[float]]] = {}
    for (strategy, value, _), profits in sorted(runs.items()):
        found.setdefault(strategy, {}).setdefault(value, []).append(fmean(profits))
    return found


def find_crossings(points: Sequence[tuple[float, float]]) -> list[float]:
    """Return where a line through points, by ascending x, goes through 0."""
    found = []
    for (x, y), (next_x, next_y) in pairwise(points):
        if y * next_y < 0:
            found.append(x + (next_x - x) * y / (y - next_y))
        elif y == 0 != next_y:
            found.append(x)
    return found


PLOT = Plot(
    name="profit",
    title="Profit by strategy against the bond, or what was varied",
    draw=draw,
    tables=("agents", "spans"),
    key=" ".join(KEYS),
    command="moot sweep baseline --set bond.eth=0.1:2:0.1 --reps 8 -o DIR",
)
