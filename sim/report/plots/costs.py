"""The cost of a dispute against the arity of its openings and the size of the program."""

import plotly.graph_objects as go

from moot.sim.report import disputes
from moot.sim.report.drawing import choose_looks, make_figure
from moot.sim.report.plot import Drawn, Lack, Plot
from moot.sim.report.results import Results


def draw(results: Results) -> Drawn | Lack:
    """Draw a line for each arity, along the bits of the place that is looked for."""
    del results  # the same for every folder: measured on the contract itself
    made_on, measured = disputes.read()
    figure = make_figure("bits of the scalar operation's place", "gas of both sides (millions)")
    looks = list(choose_looks(str(arity) for arity in {it.arity for it in measured}).values())[1:]
    for look, arity in zip(looks, sorted({it.arity for it in measured}), strict=True):
        own = sorted((it for it in measured if it.arity == arity), key=lambda it: it.bits)
        figure.add_trace(
            go.Scatter(
                x=[it.bits for it in own],
                y=[it.gas / 1e6 for it in own],
                customdata=[[it.calls, it.about] for it in own],
                name=f"{arity} nodes a move",
                mode="lines+markers",
                line={"color": look.colour, "dash": look.dash, "width": 2},
                marker={"color": look.colour, "symbol": look.symbol, "size": 9},
                hovertemplate="%{y:.3f} million gas in %{customdata[0]} calls<br>"
                "%{customdata[1]}<extra>%{fullData.name}</extra>",
            )
        )
    figure.update_yaxes(rangemode="tozero")
    least, most = min(measured, key=lambda it: it.gas), max(measured, key=lambda it: it.gas)
    return Drawn(
        figure,
        "What a dispute costs both sides together from joining to payout, by how many nodes of a "
        f"tree a move opens: from {least.gas / 1e6:.2f} million gas ({least.about}; {least.arity} "
        f"nodes a move) to {most.gas / 1e6:.2f} million ({most.about}; {most.arity} nodes a move). "
        "Receipts of disputes that were played on the contract in py-evm "
        f"{made_on['py-evm']} with {made_on['fork'].capitalize()}'s rules and Vyper "
        f"{made_on['vyper']}; the same for every folder.",
    )


PLOT = Plot(name="costs", title="Cost of a dispute by arity and size of the program", draw=draw)
