"""The heat map of strategies: how each fares in games in which each other one took part."""

from collections.abc import Sequence

import plotly.graph_objects as go

from moot.sim.report.drawing import GWEI, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results

Cell = tuple[float, int]
"""A sum of profits in ETH, and of how many parties."""


def draw(results: Results) -> Drawn | Lack:
    """Draw the mean profit of the row's strategy beside the column's."""
    cells = measure_profits(results)
    if not cells:
        return Lack("every game had one party")
    names = sorted({name for pair in cells for name in pair})
    means = [[_mean(cells.get((own, other))) for other in names] for own in names]
    counts = [[cells.get((own, other), (0.0, 0))[1] for other in names] for own in names]
    figure = make_figure("beside a party with this strategy", "profit of this strategy")
    figure.add_trace(
        go.Heatmap(
            x=names,
            y=names,
            z=means,
            customdata=counts,
            texttemplate="%{z:.3g}" if len(names) <= 12 else None,
            colorscale="RdBu",
            zmid=0,
            xgap=2,
            ygap=2,
            colorbar={"title": {"text": "ETH a game", "side": "right"}},
            hovertemplate="%{y} beside %{x}: %{z:.4g} ETH a game, mean of %{customdata:,}"
            "<extra></extra>",
            hoverongaps=False,
        )
    )
    figure.update_layout(height=max(420, 180 + 34 * len(names)))
    figure.update_xaxes(type="category", tickangle=-40, showgrid=False)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    return Drawn(
        figure,
        "What a party with the row's strategy has won or lost by a disputed job, as a mean of "
        f"those of all {results.read('games', []).num_rows:,} games in which another party had the "
        "column's strategy; where there is no colour the two have never met.",
    )


def measure_profits(results: Results) -> dict[tuple[str, str], Cell]:
    """Return the sum of the profits of each strategy beside each other one, and the count.

    A party counts once for each strategy that it has met in a game.
    """
    parties = results.read("parties", ["game", "strategy", "profit_gwei"]).to_pydict()
    columns = (parties[name] for name in ("run", "game", "strategy", "profit_gwei"))
    cells: dict[tuple[str, str], Cell] = {}
    table: list[tuple[str, int]] = []
    last = None
    for run, game, strategy, profit in zip(*columns, strict=True):
        if (run, game) != last:
            _count(table, cells)
            table, last = [], (run, game)
        table.append((strategy, profit))
    _count(table, cells)
    return cells


def _count(table: Sequence[tuple[str, int]], cells: dict[tuple[str, str], Cell]) -> None:
    """Add the parties of one game to the sums."""
    for place, (own, profit) in enumerate(table):
        others = {other for k, (other, _) in enumerate(table) if k != place}
        for other in others:
            total, count = cells.get((own, other), (0.0, 0))
            cells[own, other] = total + profit / GWEI, count + 1


def _mean(cell: Cell | None) -> float | None:
    return None if cell is None else cell[0] / cell[1]


PLOT = Plot(
    name="heat",
    title="Profit of each strategy beside each other one",
    draw=draw,
    tables=("parties",),
    command="moot market baseline -o DIR",
)
