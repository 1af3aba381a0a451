"""The table of plots, in the order of the page."""

from moot.sim.report.plot import Plot
from moot.sim.report.plots import (
    audits,
    costs,
    griefing,
    heat,
    over_time,
    phases,
    profit,
    survival,
    sybils,
)

PLOTS: tuple[Plot, ...] = (
    profit.PLOT,
    audits.PLOT,
    over_time.PLOT,
    heat.PLOT,
    survival.PLOT,
    griefing.PLOT,
    sybils.PLOT,
    costs.PLOT,
    phases.PLOT,
)
