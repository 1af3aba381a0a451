"""The results of a market, for people."""

from decimal import Decimal
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from moot.markets import Results
    from moot.summing import Row

_GWEI = 10**9
_WEI_DIGITS = 18
_WORTH_A_TEST = 200
"""Jobs of which it is said whether they are stationary; a burn-in is always worth it."""

_RECEIPTS = ("receipts", "lies", "relied", "found", "faults", "uncovered")
"""What is shown of a strategy's receipts."""

_COUNTS = ("agents", "gone", "jobs", "cheated", "slashed", "forfeits")
"""What is shown of a strategy's agents together."""


def show_market(results: "Results", console: Console) -> None:
    """Print what became of a market, for people."""
    (run,) = results.to_arrow("runs").to_pylist()
    accounts = results.sum_accounts()
    console.print(
        f"[bold]{run['jobs']:,} jobs[/] in {run['blocks']:,} blocks{_tell_burn_in(run)}: "
        f"{run['right']:,} answers "
        f"right, {run['wrong']:,} wrong, {run['void']:,} void, {run['unserved']:,} jobs unserved",
        markup=True,
    )
    console.print(
        f"{run['cheated']:,} jobs were cheated in, {run['caught']:,} of the cheats lost a bond; "
        f"{run['audited']:,} jobs were audited, {run['disputed']:,} disputed"
        + (
            f", {run['played']:,} of these played on a chain"
            if run["played"] and not accounts
            else ""
        )
    )
    if run["waited"]:
        console.print(
            f"calls of {run['waited']:,} jobs waited for a block that they could pay; "
            f"{run['missed_clocks']:,} accounts missed a clock, which cost "
            f"{run['missed_gwei'] / _GWEI:,.3f} ETH and changed {run['spoiled']:,} outcomes"
        )
    if run["audit_rate_asked"]:
        console.print(
            f"audits: {run['audit_rate_achieved']:.1%} of the jobs that were served; asked for: "
            f"{run['audit_rate_asked']:.1%}"
        )
    console.print(
        f"clients: {run['client_gwei'] / _GWEI:+,.3f} ETH, what right answers are worth less what "
        "was paid and wrong answers cost"
    )
    console.print(_make_strategy_table(results))
    _show_receipts(results, console)
    if run["burn_in"] or run["jobs"] >= _WORTH_A_TEST:
        courses = [course for course in results.follow() if course is not None]
        console.print(*(course.judge().describe() for course in courses), sep="\n")
    if accounts:
        console.print(_make_account_table(accounts))
        console.print(_make_gas_table(results.tabulate_calls()))
        fees_wei, left_wei = (sum(row[it] for row in accounts) for it in ("fees_wei", "profit_wei"))
        console.print(
            f"{_show_eth(fees_wei)} ETH went to gas, {_show_eth(-left_wei - fees_wei)} ETH were "
            "burned; every account has what the rules pay, to the wei"
        )
    elif gas := results.sum_gas():
        parts = [
            f"{stage} {it['modelled'] / it['played'] - 1:+.2%}"
            for stage, it in gas.items()
            if it["played"]
        ]
        console.print(f"gas of the table against the chain's: {', '.join(parts)}")


def _tell_burn_in(run: "Row") -> str:
    """Return what is left out, if anything is."""
    left_out = run["burn_in"]
    return f" (after {left_out:,} of burn-in, which no sum counts)" if left_out else ""


def _make_table(title: str, names: int, *headers: str) -> Table:
    """Return a table whose first columns are names and whose others are numbers."""
    table = Table(title=title, box=None, pad_edge=False, title_justify="left")
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index < names else "right", no_wrap=True)
    return table


def _make_strategy_table(results: "Results") -> Table:
    table = _make_table("by strategy", 2, "role", "strategy", *_COUNTS, "ETH earned", "mETH a job")
    for row in results.sum_strategies():
        if row["role"] == "client":
            continue
        counts = [f"{row[name]:,}" for name in _COUNTS]
        earned_eth, jobs = row["profit_gwei"] / _GWEI, row["jobs"]
        each = f"{1000 * earned_eth / jobs:+,.1f}" if jobs else "-"
        table.add_row(row["role"], row["strategy"], *counts, f"{earned_eth:+,.3f}", each)
    return table


def _show_receipts(results: "Results", console: Console) -> None:
    """Print what became of jobs by receipt, if there are any."""
    rows = results.sum_receipts()
    if not rows:
        return
    table = _make_table("answers by receipt", 1, "strategy", *_RECEIPTS, "ETH lost")
    for row in rows:
        counts = [f"{row[name]:,}" for name in _RECEIPTS]
        table.add_row(row["strategy"], *counts, f"{row['lost_gwei'] / _GWEI:,.3f}")
    console.print(table)
    answers = sum(row["receipts"] for row in rows)
    calls = results.sum_service()
    gas = {row["call"]: row["gas"] / answers for row in calls}
    told = ", ".join(f"{name.removeprefix('service.')} {it:,.1f}" for name, it in gas.items())
    console.print(f"gas an answer: {sum(gas.values()):,.1f} ({told})")


def _make_account_table(accounts: "list[Row]") -> Table:
    counted = ("jobs", "right", "won", "slashed")
    table = _make_table(
        "accounts on the chain (right: claims that an honest run makes)",
        1,
        *("strategy", *counted, "gas paid", "profit in ETH"),
    )
    for row in accounts:
        counts = [f"{row[name]:,}" for name in counted]
        money = (_show_eth(row["fees_wei"]), _show_eth(row["profit_wei"], "+"))
        table.add_row(row["strategy"], *counts, *money)
    return table


def _make_gas_table(rows: "list[Row]") -> Table:
    headers = ("stage", "call", "moves", "minimum", "median", "maximum", "calldata", "execution")
    table = _make_table("gas by stage and call (calldata and execution: medians)", 2, *headers)
    for row in rows:
        spread = (row["gas"][it] for it in ("minimum", "median", "maximum"))
        amounts = (row["moves"], *spread, row["calldata"]["median"], row["execution"]["median"])
        table.add_row(row["stage"], row["call"], *(f"{amount:,}" for amount in amounts))
    return table


def _show_eth(wei: int, sign: str = "") -> str:
    return f"{Decimal(wei).scaleb(-_WEI_DIGITS):{sign}.6f}"
