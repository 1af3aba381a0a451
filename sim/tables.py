"""A market's results as tidy tables: a row is a flat record of names and numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from moot.offchain.disputes.accounts import sum_stages
from moot.sim.agents import Agent
from moot.sim.gas import GasRow, tabulate
from moot.sim.ledger import Flows
from moot.sim.results import Entry, Fate, JobResult, Outcome

Record = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """How the providers of one strategy have done, all of them and all their jobs together.

    `jobs` counts the part of every account of a provider in every job, `right` the claims among
    them that an honest run would have made. `won`, `slashed` and `refunded` add up to `jobs`.
    """

    strategy: str
    providers: int
    jobs: int
    right: int
    won: int
    slashed: int
    refunded: int
    gas: int
    fees_wei: int
    profit_wei: int


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole market; `gas`, `fees_wei` and `burned_wei` are everybody's.

    `transactions` and `gas` are those of accepted calls; `fees_wei` pays for refused ones, too.
    `right`, `wrong` and `void` count what the client got and add up to `jobs`. What the client,
    the verifier and the providers have gained adds up to what their accounts have.
    """

    jobs: int
    disputed: int
    matches: int
    right: int
    wrong: int
    void: int
    transactions: int
    gas: int
    fees_wei: int
    burned_wei: int
    client_wei: int
    verifier_wei: int
    providers_wei: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a market."""

    strategies: tuple[StrategyRow, ...]
    gas: tuple[GasRow, ...]
    totals: Totals
    flows: Flows


def summarise_market(agents: Sequence[Agent], results: Sequence[JobResult]) -> Summary:
    """Return the summary of a market; the strategies come in the order of the agents."""
    return Summary(
        strategies=tuple(_summarise_strategies(agents, results)),
        gas=tuple(tabulate(cost for result in results for cost in result.costs)),
        totals=_sum_up(results),
        flows=sum((result.flows for result in results), Flows()),
    )


def _summarise_strategies(
    agents: Sequence[Agent], results: Iterable[JobResult]
) -> list[StrategyRow]:
    entries = [entry for result in results for entry in result.entries]
    names = dict.fromkeys(agent.strategy for agent in agents)
    return [
        _summarise_strategy(
            name,
            sum(agent.strategy == name for agent in agents),
            [entry for entry in entries if entry.strategy == name],
        )
        for name in names
    ]


def _summarise_strategy(name: str, providers: int, entries: Sequence[Entry]) -> StrategyRow:
    fates = [entry.fate for entry in entries]
    return StrategyRow(
        strategy=name,
        providers=providers,
        jobs=len(entries),
        right=sum(entry.is_right for entry in entries),
        won=fates.count(Fate.WON),
        slashed=fates.count(Fate.SLASHED),
        refunded=fates.count(Fate.REFUNDED),
        gas=sum(entry.gas for entry in entries),
        fees_wei=sum(entry.fees_wei for entry in entries),
        profit_wei=sum(entry.profit_wei for entry in entries),
    )


def _sum_up(results: Sequence[JobResult]) -> Totals:
    outcomes = [result.outcome for result in results]
    flows = sum((result.flows for result in results), Flows())
    return Totals(
        jobs=len(results),
        disputed=sum(bool(result.matches) for result in results),
        matches=sum(len(result.matches) for result in results),
        right=outcomes.count(Outcome.RIGHT),
        wrong=outcomes.count(Outcome.WRONG),
        void=outcomes.count(Outcome.VOID),
        transactions=sum(len(result.costs) for result in results),
        gas=sum(cost.gas for result in results for cost in result.costs),
        fees_wei=flows.fees_wei,
        burned_wei=flows.burned_wei,
        client_wei=sum(result.client_wei for result in results),
        verifier_wei=sum(result.verifier_wei for result in results),
        providers_wei=sum(e.profit_wei for result in results for e in result.entries),
    )


def make_job_record(result: JobResult) -> Record:
    """Return a job's line; a cell about all its providers lists them in the order of joining."""
    entries = result.entries
    return {
        "job": result.number,
        "providers": _join(entry.provider for entry in entries),
        "behaviours": _join(entry.behaviour for entry in entries),
        "fates": _join(entry.fate for entry in entries),
        "right": _join("yes" if entry.is_right else "no" for entry in entries),
        "claims": result.claims,
        "endings": _join(result.matches),
        "outcome": result.outcome,
        "profits_wei": _join(str(entry.profit_wei) for entry in entries),
        "client_wei": result.client_wei,
        "burned_wei": result.flows.burned_wei,
        "fees_wei": result.flows.fees_wei,
        "transactions": len(result.costs),
        "gas": sum(cost.gas for cost in result.costs),
        **{f"gas_{stage}": gas for stage, gas in sum_stages(result.costs).items()},
    }


def _join(cells: Iterable[str]) -> str:
    return " ".join(cells)


def make_strategy_record(row: StrategyRow) -> Record:
    """Return a strategy's line."""
    return asdict(row)


def make_gas_record(row: GasRow) -> Record:
    """Return a call's line, all in gas but `moves`."""
    record: Record = {"stage": row.stage, "call": row.call, "moves": row.moves}
    for part in ("gas", "calldata", "execution"):
        spread = asdict(getattr(row, part))
        record |= {f"{part}_{name}": amount for name, amount in spread.items()}
    return record


def make_object(summary: Summary, results: Iterable[JobResult]) -> dict[str, Any]:
    """Return everything as one object for JSON; amounts are in wei and in gas."""
    return {
        "strategies": [asdict(row) for row in summary.strategies],
        "gas": [asdict(row) for row in summary.gas],
        "jobs": [_make_job_object(result) for result in results],
        "totals": asdict(summary.totals),
        "conservation": asdict(summary.flows) | {"sum_wei": summary.flows.sum_wei},
    }


def _make_job_object(result: JobResult) -> dict[str, Any]:
    job = asdict(result)
    del job["costs"]
    return job | {
        "transactions": len(result.costs),
        "gas": sum(cost.gas for cost in result.costs),
        "gas_by_stage": sum_stages(result.costs),
    }
