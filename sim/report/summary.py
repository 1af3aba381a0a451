"""The summary of a results folder: a row for each setting, and what one ought to know first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from moot.offchain.text import clean
from moot.sim.economy.audits import list_shortfalls
from moot.sim.report.agents import read_agents
from moot.sim.report.courses import read_courses
from moot.sim.report.results import Results
from moot.sim.report.text import name_key

MOST = 200
"""Settings that are listed."""
FAILURES = 10
"""Failed runs whose errors are listed."""
SUMS = ("jobs", "right", "wrong", "void", "unserved", "cheated", "caught", "disputed", "played")
AGENT_SUMS = ("jobs", "cheated", "slashed", "forfeits")
STRATEGY_HEADS = ("role", "strategy", "agents", *AGENT_SUMS, "profit of an agent (ETH, mean)")
RATES = ("audit_rate_asked", "audit_rate_achieved")
HEADS = (
    *("runs", *SUMS, "waited", "missed clocks", "audits asked for (mean)", "audits made (mean)"),
    *("gas (millions)", "fees (ETH)", "blocks (mean)"),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a report begins with.

    Attributes:
        heads: of the table's columns.
        rows: a row of texts for each setting, in the order of the values of the keys.
        left_out: how many settings are not listed.
        strategy_heads: of the columns of the table of strategies.
        strategies: a row of texts for each role and strategy, over all runs.
        notices: sentences about what went wrong.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int
    strategy_heads: Sequence[str]
    strategies: Sequence[Sequence[str]]
    notices: Sequence[str]


def summarise(results: Results) -> Summary:
    """Return the summary: counts are sums over the runs of a setting."""
    keys = list(results.keys)
    counted = (*SUMS, "waited", "missed_clocks")
    sums = [(name, "sum") for name in (*counted, "gas", "fees_gwei")]
    table = results.runs.group_by(keys, use_threads=False).aggregate(
        [*sums, *((name, "mean") for name in (*RATES, "blocks")), ("run", "count")]
    )
    if keys and table.num_rows:
        table = table.sort_by([(key, "ascending") for key in keys])
    rows = []
    for row in table.slice(0, MOST).to_pylist() if results.runs.num_rows else ():
        counts = [f"{row[f'{name}_sum'] or 0:,}" for name in counted]
        counts += [f"{row[f'{name}_mean'] or 0:.1%}" for name in RATES]
        gas, fees = (row["gas_sum"] or 0) / 1e6, (row["fees_gwei_sum"] or 0) / 1e9
        amounts = [f"{gas:,.1f}", f"{fees:,.4f}", f"{row['blocks_mean'] or 0:,.0f}"]
        rows.append(
            [*(_show(row[key]) for key in keys), f"{row['run_count']:,}", *counts, *amounts]
        )
    heads = [*map(name_key, keys), *HEADS]
    left_out = max(0, table.num_rows - MOST)
    strategies = _list_strategies(results)
    return Summary(heads, rows, left_out, STRATEGY_HEADS, strategies, _list_notices(results))


def _list_strategies(results: Results) -> list[list[str]]:
    """Return what became of each strategy, over all runs."""
    if not results.runs.num_rows or not results.count_rows("agents"):
        return []
    agents = read_agents(results)
    table = agents.group_by(["role", "strategy"], use_threads=False).aggregate(
        [("run", "count"), *((name, "sum") for name in AGENT_SUMS), ("profit_gwei", "mean")]
    )
    table = table.sort_by([("role", "ascending"), ("profit_gwei_mean", "descending")])
    return [
        [
            clean(row["role"]),
            clean(row["strategy"]),
            f"{row['run_count']:,}",
            *(f"{row[f'{name}_sum']:,}" for name in AGENT_SUMS),
            f"{row['profit_gwei_mean'] / 1e9:+,.4f}",
        ]
        for row in table.to_pylist()
    ]


def _show(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else clean(str(value))


def _list_notices(results: Results) -> list[str]:
    """Return what went wrong, a sentence each."""
    found = [
        f"Run {failure.run} failed: {clean(failure.error)}"
        for failure in results.failures[:FAILURES]
    ]
    if len(results.failures) > FAILURES:
        found.append(f"{len(results.failures) - FAILURES} further runs failed.")
    for column, words in {
        "violations": "invariants were violated",
        "disagreements": "modelled disputes came out differently when they were played",
        "missed_clocks": "accounts missed their clocks, as their calls could not pay for a block",
    }.items():
        count = pc.sum(results.runs[column]).as_py()
        if count:
            found.append(f"{count:,} {words}.")
    rows = results.runs.select(("jobs", "unserved", *RATES, "busy", "late")).to_pylist()
    audits = [f"Audits: {told}." for told in list_shortfalls(rows)]
    return found + audits + _list_restless(results) + _list_forfeits(results)


def _list_restless(results: Results) -> list[str]:
    """Return a sentence about settings that still change after their burn-in, if some do."""
    courses = read_courses(results)
    verdicts = [course.judge() for course in courses]
    restless = [verdict for verdict in verdicts if verdict.trends]
    if not restless:
        return []
    count = f"{len(restless)} of {len(verdicts)} settings are "
    return [f"{count if len(verdicts) > 1 else 'The market is '}{restless[0].describe()}."]


def _list_forfeits(results: Results) -> list[str]:
    """Return for each strategy that has forfeited decisions how many, and the commonest reason."""
    if not results.count_rows("agents") or not results.count_rows("events"):
        return []
    agents = results.read("agents", ["agent", "strategy"]).to_pylist()
    strategies = {(row["run"], row["agent"]): row["strategy"] for row in agents}
    events = results.read("events", ["kind", "agent", "detail"])
    reasons: dict[str, Counter[str]] = {}
    for row in events.filter(pc.equal(events["kind"], "forfeit")).to_pylist():
        strategy = strategies.get((row["run"], row["agent"]), "unknown")
        reasons.setdefault(strategy, Counter())[row["detail"]] += 1
    found = []
    for strategy, counts in sorted(reasons.items()):
        total, reason = counts.total(), counts.most_common(1)[0][0]
        found.append(
            f"The strategy {clean(strategy)} forfeited {total:,} decision{'s' * (total > 1)}; the "
            f"{'commonest ' * (len(counts) > 1)}reason: {clean(reason)}."
        )
    return found
