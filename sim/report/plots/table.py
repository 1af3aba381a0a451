"""The table of plots, in the order of the page."""

from moot.sim.report.plot import Plot
from moot.sim.report.plots import (
    audits,
    costs,
    cover,
    gas,
    griefing,
    heat,
    over_time,
    phases,
    prices,
    profit,
    queue,
    receipts,
    reputation,
    service,
    survival,
    sybils,
)

PLOTS: tuple[Plot, ...] = (
    profit.PLOT,
    audits.PLOT,
    over_time.PLOT,
    prices.PLOT,
    reputation.PLOT,
    queue.PLOT,
    gas.PLOT,
    heat.PLOT,
    survival.PLOT,
    griefing.PLOT,
    sybils.PLOT,
    receipts.PLOT,
    cover.PLOT,
    service.PLOT,
    costs.PLOT,
    phases.PLOT,
)
