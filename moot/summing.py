"""Sums over the tables of a market's one run: by strategy, by stage, by account, by call."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from moot.offchain.errors import UsageError

_REFUSED = "refused"
_SPANNED = ("jobs", "cheated", "slashed", "work_gwei", "profit_gwei")
_SUMMED = ("jobs", "cheated", "slashed", "forfeits", "work_gwei", "profit_gwei")
_FATES = ("won", "slashed", "refunded")

Row = dict[str, Any]
Read = Callable[[str], Sequence[Row]]
"""(the name of a table) -> its rows."""


def describe(read: Read) -> Row:
    """Return what the tables tell, as `moot market --json` prints it.

    `gas` is there if disputes were modelled and played; `accounts` (by strategy, in wei) and
    `calls` (the gas by stage and function) if jobs were played.

    Raises:
        UsageError: they are of a sweep.
    """
    runs = read("runs")
    if len(runs) != 1:
        raise UsageError(
            f"these are the results of {len(runs):,} runs, and only those of one market are "
            "described; take `to_arrow`"
        )
    (run,) = runs
    kept = {name: value for name, value in run.items() if name not in {"run", "rep", "error"}}
    told = {"run": kept, "strategies": sum_strategies(read)}
    found: Row = {"gas": sum_gas(read), "accounts": sum_accounts(read)}
    found["calls"] = tabulate_calls(read)
    return told | {name: value for name, value in found.items() if value}


def sum_strategies(read: Read) -> list[Row]:
    """Return what became of the agents of each role and strategy together, after the burn-in."""
    sums: dict[tuple[str, str], Row] = {}
    for agent in read("agents"):
        key = (agent["role"], agent["strategy"])
        row = sums.setdefault(key, {"role": key[0], "strategy": key[1], "agents": 0, "gone": 0})
        row["agents"] += 1
        row["gone"] += agent["left"] is not None
        for name in _SUMMED:
            row.setdefault(name, 0)
        row["forfeits"] += agent["forfeits"]
    for span in read("spans"):
        if not span["is_burn_in"]:
            row = sums[span["role"], span["strategy"]]
            for name in _SPANNED:
                row[name] += span[name]
    return list(sums.values())


def sum_gas(read: Read) -> dict[str, dict[str, int]]:
    """Return the gas of each stage of the games that were played, too, modelled and played."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: {"modelled": 0, "played": 0})
    for game in read("games"):
        if game["played_outcome"] is not None and game["fidelity"] == "modelled":
            for name in game:
                stage = name.removeprefix("played_gas_")
                if stage != name:
                    sums[stage]["modelled"] += game[f"gas_{stage}"]
                    sums[stage]["played"] += game[name]
    return dict(sums)


def sum_accounts(read: Read) -> list[Row]:
    """Return what became of the accounts of each strategy on the chain, in all played jobs.

    `jobs` counts the part of every account in every job, `right` the claims among them that an
    honest run would have made; `won`, `slashed` and `refunded` are what became of bonds.
    """
    sums: dict[str, Row] = {}
    for account in read("accounts"):
        name = account["strategy"] or account["account"]
        names = ("jobs", "right", *_FATES, "gas", "fees_wei", "profit_wei")
        row = sums.setdefault(name, {"strategy": name, **dict.fromkeys(names, 0)})
        row["jobs"] += 1
        row["right"] += bool(account["is_right"])
        for fate in _FATES:
            row[fate] += account["fate"] == fate
        for amount in ("gas", "fees_wei", "profit_wei"):
            row[amount] += int(account[amount])
    order = [agent["strategy"] for agent in read("agents") if agent["role"] != "client"]
    return [sums[it] for it in dict.fromkeys([*order, "client", "verifier"]) if it in sums]


def tabulate_calls(read: Read) -> list[Row]:
    """Return the gas of the accepted calls of all played jobs, by stage and function."""
    from moot.offchain.disputes.play.accounts import Cost  # noqa: PLC0415 - imports numpy
    from moot.sim.gas import tabulate  # noqa: PLC0415 - likewise

    costs: Iterator[Cost] = (
        Cost(it["stage"], it["function"], it["gas"], it["gas_calldata"], it["gas_execution"])
        for it in read("calls")
        if it["stage"] != _REFUSED
    )
    return [asdict(row) for row in tabulate(costs)]
