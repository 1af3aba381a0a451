"""Agents with what their jobs after the burn-in came to, as reports sum them."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from moot.sim.report.results import Results

SUMS = ("jobs", "cheated", "slashed", "profit_gwei")
"""What of an agent is summed over its jobs."""


def read_agents(results: Results, keys: Sequence[str] = ()) -> pa.Table:
    """Return a row for each agent that was ever there, by run and number.

    Its columns are `run`, `agent`, `role`, `strategy`, `forfeits` (of the whole run), `SUMS`, and
    the values of some varied keys.

    Raises:
        UsageError: a table is not there, or is damaged.
    """
    agents = results.read("agents", ["agent", "role", "strategy", "forfeits"], keys)
    spans = results.read("spans", ["agent", *SUMS])
    sums = spans.group_by(["run", "agent"], use_threads=False).aggregate(
        [(name, "sum") for name in SUMS]
    )
    joined = agents.join(sums, ["run", "agent"], use_threads=False)
    for name in SUMS:
        column = pc.fill_null(joined[f"{name}_sum"], 0)  # it had no job
        joined = joined.drop_columns([f"{name}_sum"]).append_column(name, column)
    return joined.sort_by([("run", "ascending"), ("agent", "ascending")])
