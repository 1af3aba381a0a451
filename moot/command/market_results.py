"""The results of a market, from its tables: as an object for JSON, and for people."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_GWEI = 10**9
_WEI_DIGITS = 18
_COUNTS = ("agents", "gone", "jobs", "cheated", "slashed", "forfeits")
"""What is shown of a strategy's agents together."""

_REFUSED = "refused"
_FATES = ("won", "slashed", "refunded")

Row = dict[str, Any]


def describe_market(output: Path) -> Row:
    """Return what the tables in a folder tell of a market's one run.

    `gas` is there if disputes were modelled and played; `accounts` (by strategy, in wei) and
    `calls` (the gas by stage and function) if jobs were played.
    """
    (run,) = _read(output, "runs")
    kept = {name: value for name, value in run.items() if name not in {"run", "rep", "error"}}
    told = {"run": kept, "strategies": sum_strategies(output)}
    found: Row = {"gas": sum_gas(output), "accounts": sum_accounts(output)}
    found["calls"] = tabulate_calls(output)
    return told | {name: value for name, value in found.items() if value}


def show_market(output: Path, console: Console) -> None:
    """Print what became of a market, for people."""
    (run,) = _read(output, "runs")
    accounts = sum_accounts(output)
    console.print(
        f"[bold]{run['jobs']:,} jobs[/] in {run['blocks']:,} blocks: {run['right']:,} answers "
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
    console.print(
        f"clients: {run['client_gwei'] / _GWEI:+,.3f} ETH, what right answers are worth less what "
        "was paid and wrong answers cost"
    )
    console.print(_make_strategy_table(output))
    if accounts:
        console.print(_make_account_table(accounts))
        console.print(_make_gas_table(tabulate_calls(output)))
        fees_wei, left_wei = (sum(row[it] for row in accounts) for it in ("fees_wei", "profit_wei"))
        console.print(
            f"{_show_eth(fees_wei)} ETH went to gas, {_show_eth(-left_wei - fees_wei)} ETH were "
            "burned; every account has what the rules pay, to the wei"
        )
    elif gas := sum_gas(output):
        parts = [
            f"{stage} {it['modelled'] / it['played'] - 1:+.2%}"
            for stage, it in gas.items()
            if it["played"]
        ]
        console.print(f"gas of the table against the chain's: {', '.join(parts)}")


def sum_strategies(output: Path) -> list[Row]:
    """Return what became of the agents of each role and strategy together."""
    sums: dict[tuple[str, str], Row] = {}
    for agent in _read(output, "agents"):
        key = (agent["role"], agent["strategy"])
        row = sums.setdefault(key, {"role": key[0], "strategy": key[1], "agents": 0, "gone": 0})
        row["agents"] += 1
        row["gone"] += agent["left"] is not None
        for name in ("jobs", "cheated", "slashed", "forfeits", "work_gwei", "profit_gwei"):
            row[name] = row.get(name, 0) + agent[name]
    return list(sums.values())


def sum_gas(output: Path) -> dict[str, dict[str, int]]:
    """Return the gas of each stage of the games that were played, too, modelled and played."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: {"modelled": 0, "played": 0})
    for game in _read(output, "games"):
        if game["played_outcome"] is not None and game["fidelity"] == "modelled":
            for name in game:
                stage = name.removeprefix("played_gas_")
                if stage != name:
                    sums[stage]["modelled"] += game[f"gas_{stage}"]
                    sums[stage]["played"] += game[name]
    return dict(sums)


def sum_accounts(output: Path) -> list[Row]:
    """Return what became of the accounts of each strategy on the chain, in all played jobs.

    `jobs` counts the part of every account in every job, `right` the claims among them that an
    honest run would have made; `won`, `slashed` and `refunded` are what became of bonds.
    """
    sums: dict[str, Row] = {}
    for account in _read(output, "accounts"):
        name = account["strategy"] or account["account"]
        names = ("jobs", "right", *_FATES, "gas", "fees_wei", "profit_wei")
        row = sums.setdefault(name, {"strategy": name, **dict.fromkeys(names, 0)})
        row["jobs"] += 1
        row["right"] += bool(account["is_right"])
        for fate in _FATES:
            row[fate] += account["fate"] == fate
        for amount in ("gas", "fees_wei", "profit_wei"):
            row[amount] += int(account[amount])
    order = [agent["strategy"] for agent in _read(output, "agents") if agent["role"] != "client"]
    return [sums[it] for it in dict.fromkeys([*order, "client", "verifier"]) if it in sums]


def tabulate_calls(output: Path) -> list[Row]:
    """Return the gas of the accepted calls of all played jobs, by stage and function."""
    from moot.offchain.disputes.play.accounts import Cost  # noqa: PLC0415 - imports numpy
    from moot.sim.gas import tabulate  # noqa: PLC0415 - likewise

    costs: Iterator[Cost] = (
        Cost(it["stage"], it["function"], it["gas"], it["gas_calldata"], it["gas_execution"])
        for it in _read(output, "calls")
        if it["stage"] != _REFUSED
    )
    return [asdict(row) for row in tabulate(costs)]


def _read(output: Path, table: str) -> list[Row]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow

    rows: list[Row] = pq.read_table(output / f"{table}.parquet").to_pylist()
    return rows


def _make_table(title: str, names: int, *headers: str) -> Table:
    """Return a table whose first columns are names and whose others are numbers."""
    table = Table(title=title, box=None, pad_edge=False, title_justify="left")
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index < names else "right", no_wrap=True)
    return table


def _make_strategy_table(output: Path) -> Table:
    table = _make_table("by strategy", 2, "role", "strategy", *_COUNTS, "ETH earned", "mETH a job")
    for row in sum_strategies(output):
        if row["role"] == "client":
            continue
        counts = [f"{row[name]:,}" for name in _COUNTS]
        earned_eth, jobs = row["profit_gwei"] / _GWEI, row["jobs"]
        each = f"{1000 * earned_eth / jobs:+,.1f}" if jobs else "-"
        table.add_row(row["role"], row["strategy"], *counts, f"{earned_eth:+,.3f}", each)
    return table


def _make_account_table(accounts: list[Row]) -> Table:
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


def _make_gas_table(rows: list[Row]) -> Table:
    headers = ("stage", "call", "moves", "minimum", "median", "maximum", "calldata", "execution")
    table = _make_table("gas by stage and call (calldata and execution: medians)", 2, *headers)
    for row in rows:
        spread = (row["gas"][it] for it in ("minimum", "median", "maximum"))
        amounts = (row["moves"], *spread, row["calldata"]["median"], row["execution"]["median"])
        table.add_row(row["stage"], row["call"], *(f"{amount:,}" for amount in amounts))
    return table


def _show_eth(wei: int, sign: str = "") -> str:
    return f"{Decimal(wei).scaleb(-_WEI_DIGITS):{sign}.6f}"
